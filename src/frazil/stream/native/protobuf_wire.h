/* The wire format. A function gives the place after what it read; NULL if it is not well-formed. */
#ifndef FRAZIL_PROTOBUF_WIRE_H
#define FRAZIL_PROTOBUF_WIRE_H

#include "protobuf_plan.h"

/* Messages and groups inside each other, as Google's parsers have it. */
#define MAX_MESSAGES 100

/* Not well-formed; a value that does not fit its column; something that has to be there, or must not be. */
enum { F_BROKEN = 0, F_MISFIT, F_LACK };

typedef struct {
    const uint8_t *p, *end;
} span_t;

/* A value as it stood: the bits of a number, or bytes. */
typedef struct {
    uint64_t bits;
    span_t span;
} raw_t;

/* What a field has until its whole message has been read: only then it is known which value counts. */
typedef struct {
    raw_t raw;
    bytes_t merged; /* messages, if there was more than one: all behind one another, which is their union */
    int has;
    int failed; /* a list: why it has no value, F_MISFIT or F_LACK */
    span_t *spans;
    int64_t count, room;
} slot_t;

typedef struct {
    reader_t text;
    int depth;   /* messages that may still be opened */
    int failure; /* why a function failed */
    int discard; /* what does not fit is a null, by the nearest optional column */
    int checked; /* the whole record is well-formed */
    span_t record;
    const message_t *root;
    slot_t *slots;
} read_t;

static const uint8_t *long_varint(const uint8_t *p, const uint8_t *end, uint64_t *value) {
    uint64_t found = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (p >= end) return NULL;
        uint8_t byte = *p++;
        found |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = found;
            return p;
        }
    }
    return NULL;
}

static inline const uint8_t *read_varint(const uint8_t *p, const uint8_t *end, uint64_t *value) {
    if (p < end && *p < 0x80) {
        *value = *p;
        return p + 1;
    }
    return long_varint(p, end, value);
}

/* At most 5 bytes and 32 bits; the number of the field is not 0. */
static inline const uint8_t *read_tag(const uint8_t *p, const uint8_t *end, uint32_t *number, int *wire) {
    uint64_t tag;
    const uint8_t *first = p;
    p = read_varint(p, end, &tag);
    if (!p || p - first > 5 || tag > UINT32_MAX || !(tag >> 3)) return NULL;
    *number = (uint32_t)(tag >> 3);
    *wire = (int)(tag & 7);
    return p;
}

/* Bytes behind their length. */
static inline const uint8_t *read_span(const uint8_t *p, const uint8_t *end, span_t *span) {
    uint64_t size;
    const uint8_t *first = p;
    p = read_varint(p, end, &size);
    if (!p || p - first > 5 || size > (uint64_t)(end - p)) return NULL;
    *span = (span_t){p, p + size};
    return p + size;
}

static const uint8_t *skip_field(read_t *r, const uint8_t *p, const uint8_t *end, uint32_t number, int wire);

static const uint8_t *skip_group(read_t *r, const uint8_t *p, const uint8_t *end, uint32_t number) {
    if (--r->depth < 0) return NULL;
    for (;;) {
        uint32_t inner;
        int wire;
        if (!(p = read_tag(p, end, &inner, &wire))) return NULL;
        if (wire == W_END) {
            r->depth++;
            return inner == number ? p : NULL;
        }
        if (!(p = skip_field(r, p, end, inner, wire))) return NULL;
    }
}

/* The value of a field, p after its tag. */
static const uint8_t *skip_field(read_t *r, const uint8_t *p, const uint8_t *end, uint32_t number, int wire) {
    uint64_t varint;
    span_t span;
    switch (wire) {
    case W_VARINT: return read_varint(p, end, &varint);
    case W_64: return end - p < 8 ? NULL : p + 8;
    case W_BYTES: return read_span(p, end, &span);
    case W_START: return skip_group(r, p, end, number);
    case W_32: return end - p < 4 ? NULL : p + 4;
    default: return NULL;
    }
}

static int is_packed(const entry_t *e, int wire) {
    return e->count == C_LIST && wire == W_BYTES && e->wire != W_BYTES;
}

/* Does the field have this form on the wire? If not it counts as one that the message does not have. */
static inline int is_form(const entry_t *e, int wire) { return e->wire == wire || is_packed(e, wire); }

static int check_message(read_t *r, const message_t *m, const uint8_t *p, const uint8_t *end);

/* A message of which two or three fields matter, none of them nested: only its form. */
static int check_plain(read_t *r, span_t span, source_t inner) {
    const uint8_t *p = span.p;
    if (--r->depth < 0) return 0;
    while (p && p < span.end) {
        uint32_t number;
        int wire;
        span_t text;
        if (!(p = read_tag(p, span.end, &number, &wire))) break;
        if (number == 1 && inner == S_STRING && wire == W_BYTES) {
            p = read_span(p, span.end, &text);
            if (p && utf8_end(text.p, text.end) != text.end) return 0;
        } else
            p = skip_field(r, p, span.end, number, wire);
    }
    r->depth++;
    return p != NULL;
}

static int check_packed(const entry_t *e, span_t span) {
    uint64_t varint;
    if (e->wire == W_32) return (span.end - span.p) % 4 == 0;
    if (e->wire == W_64) return (span.end - span.p) % 8 == 0;
    const uint8_t *p = span.p;
    while (p && p < span.end) p = read_varint(p, span.end, &varint);
    return p != NULL;
}

static int check_span(read_t *r, const entry_t *e, span_t span, int wire) {
    if (is_packed(e, wire)) return check_packed(e, span);
    if (e->inner) return check_message(r, e->inner, span.p, span.end);
    if (e->wrapper || is_message(e->source)) return check_plain(r, span, e->wrapper ? e->source : S_MESSAGE);
    return e->source != S_STRING || utf8_end(span.p, span.end) == span.end;
}

/* Is all that is wanted of a message well-formed, whether it fits or not? */
static int check_message(read_t *r, const message_t *m, const uint8_t *p, const uint8_t *end) {
    if (--r->depth < 0) return 0;
    while (p < end) {
        uint32_t number;
        int wire;
        if (!(p = read_tag(p, end, &number, &wire))) return 0;
        const entry_t *e = find_entry(m, number);
        if (e && e->use == U_COLUMN && wire == W_BYTES && is_form(e, wire)) {
            span_t span;
            if (!(p = read_span(p, end, &span)) || !check_span(r, e, span, wire)) return 0;
        } else if (!(p = skip_field(r, p, end, number, wire)))
            return 0;
    }
    r->depth++;
    return 1;
}

#endif
