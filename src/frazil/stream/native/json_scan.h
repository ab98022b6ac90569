/* The tokens of JSON. A function gives the place after what it read; NULL if that is not well-formed. */
#ifndef FRAZIL_JSON_SCAN_H
#define FRAZIL_JSON_SCAN_H

#include "json_column.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define MAX_DEPTH 64

typedef struct {
    const uint8_t *end;   /* of the record */
    const uint8_t *limit; /* of what may be looked at: the whole batch */
    int depth;
    int memory;  /* 1: out of memory, the record is not to blame */
    int unknown; /* of unknown_t */
    int lax;     /* 1: a value that does not fit is left out where its column is optional */
    int final;   /* 1: the record is bad, lax or not */
    int scalar;  /* a value other than null was skipped */
    int drifted; /* the record has something in a field that no column has */
    bytes_t scratch;
} reader_t;

/* Fields that no column has. The numbers are known to frazil.stream.decode.json_native. */
typedef enum { UNKNOWN_SKIPPED = 0, UNKNOWN_REFUSED, UNKNOWN_NOTED } unknown_t;

/* For what makes a record bad however lax the reader is. */
__attribute__((noinline, cold)) static const uint8_t *refuse(reader_t *r) {
    r->final = 1;
    return NULL;
}

static inline const uint8_t *skip_space(const uint8_t *p, const uint8_t *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
    return p;
}

static inline int is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }

static inline uint64_t load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* The first byte at or after p that is a quote, a backslash, a control or not ASCII; or the end. */
static inline const uint8_t *plain_run(const reader_t *r, const uint8_t *p) {
#if defined(__SSE2__)
    while (r->limit - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        /* Signed: what is not ASCII is below zero. */
        __m128i odd = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20));
        odd = _mm_or_si128(odd, _mm_cmpeq_epi8(v, _mm_set1_epi8('"')));
        odd = _mm_or_si128(odd, _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
        int found = _mm_movemask_epi8(odd);
        if (found) {
            p += __builtin_ctz((unsigned)found);
            return p < r->end ? p : r->end;
        }
        p += 16;
        if (p >= r->end) return r->end;
    }
#else
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    while (r->end - p >= 8) {
        uint64_t v = load64(p);
        uint64_t quote = v ^ (ones * '"'), slash = v ^ (ones * '\\');
        uint64_t odd = (v - ones * 0x20) | (quote - ones) | (slash - ones) | v;
        /* May be raised by a borrow from a byte that is odd itself: then the bytes are looked at below. */
        if (odd & highs) break;
        p += 8;
    }
#endif
    while (p < r->end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') p++;
    return p;
}

static inline int is_tail(uint8_t c) { return (c & 0xC0) == 0x80; }

/* The length of the UTF-8 sequence at p, which is not ASCII; 0 if there is none. */
static int utf8_length(const uint8_t *p, const uint8_t *end) {
    uint8_t c = *p;
    if (c < 0xC2 || c > 0xF4) return 0;
    int length = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (end - p < length || !is_tail(p[1])) return 0;
    if (length > 2 && !is_tail(p[2])) return 0;
    if (length > 3 && !is_tail(p[3])) return 0;
    if (c == 0xE0 && p[1] < 0xA0) return 0; /* too long */
    if (c == 0xED && p[1] > 0x9F) return 0; /* surrogates */
    if (c == 0xF0 && p[1] < 0x90) return 0; /* too long */
    if (c == 0xF4 && p[1] > 0x8F) return 0; /* beyond Unicode */
    return length;
}

static int hex_value(uint8_t c) {
    if (is_digit(c)) return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four hexadecimal digits; -1 if they are not there. */
static int32_t hex4(const uint8_t *p, const uint8_t *end) {
    if (end - p < 4) return -1;
    int32_t found = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(p[i]);
        if (digit < 0) return -1;
        found = found * 16 + digit;
    }
    return found;
}

static int put_utf8(uint8_t *to, uint32_t point) {
    if (point < 0x80) {
        to[0] = (uint8_t)point;
        return 1;
    }
    if (point < 0x800) {
        to[0] = (uint8_t)(0xC0 | point >> 6);
        to[1] = (uint8_t)(0x80 | (point & 0x3F));
        return 2;
    }
    if (point < 0x10000) {
        to[0] = (uint8_t)(0xE0 | point >> 12);
        to[1] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
        to[2] = (uint8_t)(0x80 | (point & 0x3F));
        return 3;
    }
    to[0] = (uint8_t)(0xF0 | point >> 18);
    to[1] = (uint8_t)(0x80 | (point >> 12 & 0x3F));
    to[2] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
    to[3] = (uint8_t)(0x80 | (point & 0x3F));
    return 4;
}

/* An escape, p after its backslash: the character as UTF-8, `*count` bytes of `to`. */
static const uint8_t *read_escape(const uint8_t *p, const uint8_t *end, uint8_t *to, int *count) {
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    if (p >= end) return NULL;
    if (*p != 'u') {
        const char *found = *p ? strchr(from, *p) : NULL;
        if (!found) return NULL;
        to[0] = (uint8_t)into[found - from];
        *count = 1;
        return p + 1;
    }
    int32_t unit = hex4(p + 1, end);
    if (unit < 0) return NULL;
    p += 5;
    if (unit >= 0xD800 && unit < 0xE000) {
        if (unit >= 0xDC00 || end - p < 6 || p[0] != '\\' || p[1] != 'u') return NULL;
        int32_t low = hex4(p + 2, end);
        if (low < 0xDC00 || low >= 0xE000) return NULL;
        p += 6;
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    *count = put_utf8(to, (uint32_t)unit);
    return p;
}

static inline int put_bytes(reader_t *r, bytes_t *out, const uint8_t *from, int64_t count) {
    if (!bytes_room(out, count)) {
        r->memory = 1;
        return 0;
    }
    uint8_t *to = out->data + out->used;
    if (count <= 16 && r->limit - from >= 16)
        memcpy(to, from, 16);
    else
        memcpy(to, from, (size_t)count);
    out->used += count;
    return 1;
}

/* The rest of a string, p after its opening quote, added to `out`; with NULL only checked. */
static inline const uint8_t *read_text(reader_t *r, const uint8_t *p, bytes_t *out) {
    for (;;) {
        const uint8_t *stop = plain_run(r, p);
        while (stop < r->end && *stop >= 0x80) {
            int length = utf8_length(stop, r->end);
            if (!length) return NULL;
            stop += length;
        }
        if (out && stop > p && !put_bytes(r, out, p, stop - p)) return NULL;
        p = stop;
        if (p >= r->end) return NULL;
        if (*p == '"') return p + 1;
        if (*p < 0x20) return NULL;
        if (*p == '\\') {
            uint8_t escaped[4];
            int count;
            p = read_escape(p + 1, r->end, escaped, &count);
            if (!p) return NULL;
            if (out) {
                if (!bytes_room(out, count)) {
                    r->memory = 1;
                    return NULL;
                }
                memcpy(out->data + out->used, escaped, (size_t)count);
                out->used += count;
            }
        }
    }
}

/* A string to look at, p after its opening quote: where it stands, or unescaped in the scratch. */
static inline const uint8_t *view_text(reader_t *r, const uint8_t *p, const uint8_t **text, int64_t *length) {
    const uint8_t *stop = plain_run(r, p);
    if (stop < r->end && *stop == '"') {
        *text = p;
        *length = stop - p;
        return stop + 1;
    }
    r->scratch.used = 0;
    stop = read_text(r, p, &r->scratch);
    *text = r->scratch.data;
    *length = r->scratch.used;
    return stop;
}

static inline const uint8_t *skip_word(const uint8_t *p, const uint8_t *end, const char *word, int length) {
    return end - p >= length && memcmp(p, word, (size_t)length) == 0 ? p + length : NULL;
}

static inline const uint8_t *skip_digits(const uint8_t *p, const uint8_t *end) {
    while (p < end && is_digit(*p)) p++;
    return p;
}

static const uint8_t *skip_number(const uint8_t *p, const uint8_t *end) {
    if (p < end && *p == '-') p++;
    if (p >= end || !is_digit(*p)) return NULL;
    p = *p == '0' ? p + 1 : skip_digits(p, end);
    if (p < end && *p == '.') {
        p++;
        if (p >= end || !is_digit(*p)) return NULL;
        p = skip_digits(p, end);
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-')) p++;
        if (p >= end || !is_digit(*p)) return NULL;
        p = skip_digits(p, end);
    }
    return p;
}

static const uint8_t *skip_value(reader_t *r, const uint8_t *p);

/* The rest of an object or array, p after its opening mark. */
static const uint8_t *skip_nested(reader_t *r, const uint8_t *p, uint8_t close) {
    if (++r->depth > MAX_DEPTH) return NULL;
    p = skip_space(p, r->end);
    if (p < r->end && *p == close) {
        r->depth--;
        return p + 1;
    }
    for (;;) {
        if (close == '}') {
            if (p >= r->end || *p != '"') return NULL;
            if (!(p = read_text(r, p + 1, NULL))) return NULL;
            p = skip_space(p, r->end);
            if (p >= r->end || *p != ':') return NULL;
            p = skip_space(p + 1, r->end);
        }
        if (!(p = skip_value(r, p))) return NULL;
        p = skip_space(p, r->end);
        if (p >= r->end) return NULL;
        if (*p == close) break;
        if (*p != ',') return NULL;
        p = skip_space(p + 1, r->end);
    }
    r->depth--;
    return p + 1;
}

static const uint8_t *skip_value(reader_t *r, const uint8_t *p) {
    if (p >= r->end) return NULL;
    switch (*p) {
    case '{': return skip_nested(r, p + 1, '}');
    case '[': return skip_nested(r, p + 1, ']');
    case 'n': return skip_word(p, r->end, "null", 4);
    }
    r->scalar = 1;
    switch (*p) {
    case '"': return read_text(r, p + 1, NULL);
    case 't': return skip_word(p, r->end, "true", 4);
    case 'f': return skip_word(p, r->end, "false", 5);
    default: return skip_number(p, r->end);
    }
}

#endif
