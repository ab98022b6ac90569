/* A value as text into its column, by the rules of frazil.stream.decode.text. 1; 0 if the text is not exactly one. */
#ifndef FRAZIL_COLUMNS_TEXT_H
#define FRAZIL_COLUMNS_TEXT_H

#include "columns_module.h"

/* The first byte that is no part of ASCII or well-formed UTF-8; or the end. */
static const uint8_t *utf8_end(const uint8_t *p, const uint8_t *end) {
    while (p < end) {
        while (end - p >= 8 && !(load64(p) & 0x8080808080808080u)) p += 8;
        while (p < end && *p < 0x80) p++;
        while (p < end && *p >= 0x80) {
            int length = utf8_length(p, end);
            if (!length) return p;
            p += length;
        }
    }
    return p;
}

/* Bytes of a string or binary value. */
static inline int put_value(reader_t *r, column_t *c, const uint8_t *p, int64_t length) {
    if (!put_bytes(r, &c->text, p, length)) return 0;
    c->offsets[++c->length] = (int32_t)c->text.used;
    return 1;
}

static int put_boolean(column_t *c, int truth) {
    uint8_t *byte = &c->fixed[c->length / 8], bit = (uint8_t)(1u << (c->length % 8));
    *byte = truth ? *byte | bit : *byte & (uint8_t)~bit;
    c->length++;
    return 1;
}

static int text_boolean(column_t *c, const uint8_t *p, int64_t length) {
    if (length == 4 && !memcmp(p, "true", 4)) return put_boolean(c, 1);
    return length == 5 && !memcmp(p, "false", 5) && put_boolean(c, 0);
}

static int text_number(reader_t *r, column_t *c, const uint8_t *p, const uint8_t *end) {
    int64_t integer = 0;
    double real = 0;
    switch (c->kind) {
    case K_INT:
        if (read_long(p, end, INT32_MAX, &integer) != end) return 0;
        ((int32_t *)(void *)c->fixed)[c->length++] = (int32_t)integer;
        return 1;
    case K_LONG:
        if (read_long(p, end, INT64_MAX, &integer) != end) return 0;
        break;
    case K_INSTANT:
        if (read_instant(p, end, c->scale, &integer) != end) return 0;
        break;
    case K_FLOAT:
        if (read_double(r, p, &real) != end || isinf((float)real)) return 0;
        ((float *)(void *)c->fixed)[c->length++] = (float)real;
        return 1;
    default:
        if (read_double(r, p, &real) != end) return 0;
        ((double *)(void *)c->fixed)[c->length++] = real;
        return 1;
    }
    ((int64_t *)(void *)c->fixed)[c->length++] = integer;
    return 1;
}

static int text_decimal(column_t *c, const uint8_t *p, const uint8_t *end) {
    number_t n;
    i128 value;
    if (read_number(p, end, &n) != end || !scaled_number(&n, c->scale, c->precision, &value)) return 0;
    memcpy(c->fixed + c->length++ * 16, &value, 16);
    return 1;
}

static int text_binary(reader_t *r, column_t *c, const uint8_t *p, int64_t length) {
    int64_t size = base64_size(p, length);
    if (size < 0) return 0;
    if (c->kind == K_FIXED) {
        if (size != c->width || !read_base64(p, size, c->fixed + c->length * c->width)) return 0;
        c->length++;
        return 1;
    }
    if (!bytes_room(&c->text, size)) {
        r->memory = 1;
        return 0;
    }
    if (!read_base64(p, size, c->text.data + c->text.used)) return 0;
    c->text.used += size;
    c->offsets[++c->length] = (int32_t)c->text.used;
    return 1;
}

static int text_moment(column_t *c, const uint8_t *p, int64_t length) {
    uint8_t *to = c->fixed + c->length * c->width;
    int64_t micros;
    int32_t days;
    switch (c->kind) {
    case K_DATE:
        if (!read_date(p, length, &days)) return 0;
        memcpy(to, &days, 4);
        break;
    case K_TIME:
        if (!read_time(p, length, &micros)) return 0;
        memcpy(to, &micros, 8);
        break;
    case K_UUID:
        if (!read_uuid(p, length, to)) return 0;
        break;
    default:
        if (!read_timestamp(p, length, c->kind == K_TIMESTAMPTZ, &micros)) return 0;
        memcpy(to, &micros, 8);
    }
    c->length++;
    return 1;
}

/* There is room for one more value in the column; text is UTF-8. On 0 look at r->memory. */
static inline int text_value(reader_t *r, column_t *c, const uint8_t *p, int64_t length) {
    r->end = p + length;
    switch (c->kind) {
    case K_STRING: return put_value(r, c, p, length);
    case K_BOOLEAN: return text_boolean(c, p, length);
    case K_INT:
    case K_LONG:
    case K_INSTANT:
    case K_FLOAT:
    case K_DOUBLE: return text_number(r, c, p, p + length);
    case K_DECIMAL: return text_decimal(c, p, p + length);
    case K_BINARY:
    case K_FIXED: return text_binary(r, c, p, length);
    default: return text_moment(c, p, length);
    }
}

#endif
