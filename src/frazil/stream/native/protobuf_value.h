/* Single values into columns. 1; 0: memory, or what `failure` says. */
#ifndef FRAZIL_PROTOBUF_VALUE_H
#define FRAZIL_PROTOBUF_VALUE_H

#include <stdio.h>

#include "protobuf_wire.h"

static const uint8_t *read_raw(const uint8_t *p, const uint8_t *end, int wire, raw_t *raw) {
    uint32_t small;
    switch (wire) {
    case W_VARINT: return read_varint(p, end, &raw->bits);
    case W_BYTES: return read_span(p, end, &raw->span);
    case W_64:
        if (end - p < 8) return NULL;
        memcpy(&raw->bits, p, 8);
        return p + 8;
    default:
        if (end - p < 4) return NULL;
        memcpy(&small, p, 4);
        raw->bits = small;
        return p + 4;
    }
}

static int no_memory(read_t *r) {
    r->text.memory = 1;
    return 0;
}

static int lacks(read_t *r) {
    r->failure = F_LACK;
    return 0;
}

static int no_fit(read_t *r) {
    r->failure = F_MISFIT;
    return 0;
}

/* The number that the bits of an integer or boolean field are; of one of 64 bits without sign, its bits. */
static inline int64_t integer_of(source_t source, uint64_t bits) {
    switch (source) {
    case S_BOOL: return bits != 0;
    case S_INT32:
    case S_ENUM:
    case S_SFIXED32: return (int32_t)(uint32_t)bits;
    case S_UINT32:
    case S_FIXED32: return (int64_t)(uint32_t)bits;
    case S_SINT32: return (int32_t)((uint32_t)bits >> 1 ^ (0 - ((uint32_t)bits & 1)));
    case S_SINT64: return (int64_t)(bits >> 1 ^ (0 - (bits & 1)));
    default: return (int64_t)bits;
    }
}

static int put_decimal(read_t *r, column_t *c, i128 value) {
    u128 size = value < 0 ? 0 - (u128)value : (u128)value;
    int digits = c->scale;
    for (u128 rest = size; rest; rest /= 10) digits++;
    if (size && digits > c->precision) return no_fit(r);
    for (int i = 0; i < c->scale; i++) size *= 10;
    value = value < 0 ? -(i128)size : (i128)size;
    memcpy(c->fixed + c->length++ * 16, &value, 16);
    return 1;
}

static inline int put_integer(read_t *r, column_t *c, source_t source, uint64_t bits) {
    int64_t value = integer_of(source, bits);
    int huge = value < 0 && (source == S_UINT64 || source == S_FIXED64);
    if (c->kind == K_LONG && !huge) {
        ((int64_t *)(void *)c->fixed)[c->length++] = value;
        return 1;
    }
    if (c->kind == K_DECIMAL) return put_decimal(r, c, huge ? (i128)bits : (i128)value);
    if (c->kind != K_INT || huge || value < INT32_MIN || value > INT32_MAX) return no_fit(r);
    ((int32_t *)(void *)c->fixed)[c->length++] = (int32_t)value;
    return 1;
}

static int put_real(read_t *r, column_t *c, source_t source, uint64_t bits) {
    double value;
    float narrow;
    uint32_t small = (uint32_t)bits;
    if (source == S_FLOAT) {
        memcpy(&narrow, &small, 4);
        value = narrow;
    } else {
        memcpy(&value, &bits, 8);
        narrow = (float)value;
    }
    if (c->kind == K_DOUBLE) {
        ((double *)(void *)c->fixed)[c->length++] = value;
        return 1;
    }
    if (isinf(narrow) && !isinf(value)) return no_fit(r);
    ((float *)(void *)c->fixed)[c->length++] = narrow;
    return 1;
}

/* The name of a number; of one that has none, its digits. */
static int put_enum(read_t *r, column_t *c, const entry_t *e, uint64_t bits) {
    if (c->kind != K_STRING) return put_integer(r, c, S_ENUM, bits);
    int64_t number = integer_of(S_ENUM, bits);
    char digits[16];
    int32_t low = 0, high = e->words_count;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (e->words[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    int known = low < e->words_count && e->words[low].number == number;
    int64_t length = known ? e->words[low].length : snprintf(digits, sizeof(digits), "%lld", (long long)number);
    /* Names are longer than numbers: the one thing that takes more room than it had in the record. */
    if (c->text.used + length > INT32_MAX || !bytes_room(&c->text, length)) return no_memory(r);
    memcpy(c->text.data + c->text.used, known ? (const char *)e->words[low].name : digits, (size_t)length);
    c->text.used += length;
    c->offsets[++c->length] = (int32_t)c->text.used;
    return 1;
}

static int put_text(read_t *r, column_t *c, span_t span) {
    if (utf8_end(span.p, span.end) != span.end) return 0;
    if (c->kind == K_STRING) return put_value(&r->text, c, span.p, span.end - span.p);
    return text_value(&r->text, c, span.p, span.end - span.p) || (!r->text.memory && no_fit(r));
}

static int put_blob(read_t *r, column_t *c, span_t span) {
    if (c->kind == K_BINARY) return put_value(&r->text, c, span.p, span.end - span.p);
    if (span.end - span.p != c->width) return no_fit(r);
    memcpy(c->fixed + c->length++ * c->width, span.p, (size_t)c->width);
    return 1;
}

/* The last values of fields 1 and 2 of a message, if they have the wanted form; 0 if it is not well-formed. */
static int read_pair(read_t *r, span_t span, source_t first, raw_t *one, raw_t *two) {
    if (--r->depth < 0) return 0;
    const uint8_t *p = span.p;
    while (p < span.end) {
        uint32_t number;
        int wire;
        if (!(p = read_tag(p, span.end, &number, &wire))) return 0;
        if (number == 1 && wire == wire_of(first)) {
            if (!(p = read_raw(p, span.end, wire, one))) return 0;
            if (first == S_STRING && utf8_end(one->span.p, one->span.end) != one->span.end) return 0;
        } else if (two && number == 2 && wire == W_VARINT)
            p = read_raw(p, span.end, wire, two);
        else
            p = skip_field(r, p, span.end, number, wire);
        if (!p) return 0;
    }
    r->depth++;
    return 1;
}

/* Whole microseconds; a timestamp in the years 0001 to 9999, a duration as Google has it. */
static int put_time(read_t *r, column_t *c, source_t source, span_t span) {
    raw_t one = {0}, two = {0};
    if (!read_pair(r, span, S_INT64, &one, &two)) return 0;
    int64_t seconds = (int64_t)one.bits, nanos = integer_of(S_INT32, two.bits);
    int good = source == S_TIMESTAMP
                   ? seconds >= -62135596800ll && seconds <= 253402300799ll && nanos >= 0
                   : seconds >= -315576000000ll && seconds <= 315576000000ll && !(seconds > 0 && nanos < 0) &&
                         !(seconds < 0 && nanos > 0);
    if (!good || nanos % 1000 || nanos < -999999999 || nanos > 999999999) return no_fit(r);
    ((int64_t *)(void *)c->fixed)[c->length++] = seconds * 1000000 + nanos / 1000;
    return 1;
}

/* A value that is no message of its own. There is room in the column. */
static inline int put_raw(read_t *r, column_t *c, const entry_t *e, const raw_t *raw) {
    switch (e->source) {
    case S_BOOL: return put_boolean(c, raw->bits != 0);
    case S_FLOAT:
    case S_DOUBLE: return put_real(r, c, e->source, raw->bits);
    case S_ENUM: return put_enum(r, c, e, raw->bits);
    case S_STRING: return put_text(r, c, raw->span);
    case S_BYTES: return put_blob(r, c, raw->span);
    default: return put_integer(r, c, e->source, raw->bits);
    }
}

#endif
