/* Numbers: exact, or correctly rounded. */
#ifndef FRAZIL_JSON_NUMBER_H
#define FRAZIL_JSON_NUMBER_H

#include <float.h>
#include <locale.h>
#include <math.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include "json_scan.h"

#if !defined(__SIZEOF_INT128__)
#error "128 bit integers are needed; frazil does without this module"
#endif
typedef unsigned __int128 u128;
typedef __int128 i128;

/* Makes strtod read a dot whatever the process's locale is. */
static locale_t c_locale;

/* 8 digits at once; 0 if one of the 8 bytes is none. Little-endian only. */
static inline int eight_digits(uint64_t v, uint64_t *value) {
    if (((v & 0xF0F0F0F0F0F0F0F0u) | (((v + 0x0606060606060606u) & 0xF0F0F0F0F0F0F0F0u) >> 4)) !=
        0x3333333333333333u)
        return 0;
    v = (v & 0x0F0F0F0F0F0F0F0Fu) * 2561 >> 8;
    v = (v & 0x00FF00FF00FF00FFu) * 6553601 >> 16;
    *value = (v & 0x0000FFFF0000FFFFu) * 42949672960001u >> 32;
    return 1;
}

/* Digits into `*value` (modulo 2^64), as many as there are. */
static inline const uint8_t *read_digits(const uint8_t *p, const uint8_t *end, uint64_t *value) {
    uint64_t found = *value;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t eight;
    while (end - p >= 8 && eight_digits(load64(p), &eight)) {
        found = found * 100000000u + eight;
        p += 8;
    }
#endif
    while (p < end && is_digit(*p)) found = found * 10 + (uint64_t)(*p++ - '0');
    *value = found;
    return p;
}

/* An integer of at most 19 digits. What comes after it is the caller's to judge. */
static inline const uint8_t *read_integer(const uint8_t *p, const uint8_t *end, uint64_t *value, int *negative) {
    *negative = p < end && *p == '-';
    p += *negative;
    if (p >= end || !is_digit(*p)) return NULL;
    *value = 0;
    if (*p == '0') return p + 1;
    const uint8_t *first = p;
    p = read_digits(p, end, value);
    return p - first <= 19 ? p : NULL;
}

/* Does a number go on after its whole part? */
static inline int is_real(const uint8_t *p, const uint8_t *end) {
    return p < end && (*p == '.' || *p == 'e' || *p == 'E');
}

/* A long, or one within 32 bits. */
static inline const uint8_t *read_long(const uint8_t *p, const uint8_t *end, uint64_t most, int64_t *value) {
    uint64_t found;
    int negative;
    p = read_integer(p, end, &found, &negative);
    if (!p || found > most + (uint64_t)negative || is_real(p, end)) return NULL;
    *value = (int64_t)(negative ? 0 - found : found);
    return p;
}

/* Exponents are cut to this; no record has the digits to make up for more. */
#define FAR_EXPONENT 1000000000

typedef struct {
    int negative;
    const uint8_t *digits, *digits_end; /* whole part and fraction, a dot between them perhaps */
    int64_t fraction;                   /* digits after the dot */
    int64_t exponent;                   /* as written */
} number_t;

/* The parts of a number, by the grammar of JSON. */
static const uint8_t *read_number(const uint8_t *p, const uint8_t *end, number_t *n) {
    const uint8_t *stop = skip_number(p, end);
    if (!stop) return NULL;
    n->negative = *p == '-';
    n->digits = p + n->negative;
    n->fraction = n->exponent = 0;
    const uint8_t *q = skip_digits(n->digits, stop);
    if (q < stop && *q == '.') {
        const uint8_t *dot = q;
        q = skip_digits(q + 1, stop);
        n->fraction = q - dot - 1;
    }
    n->digits_end = q;
    if (q < stop) {
        int negative = q[1] == '-';
        for (q += q[1] == '-' || q[1] == '+' ? 2 : 1; q < stop; q++)
            if (n->exponent < FAR_EXPONENT) n->exponent = n->exponent * 10 + (*q - '0');
        if (n->exponent > FAR_EXPONENT) n->exponent = FAR_EXPONENT;
        if (negative) n->exponent = -n->exponent;
    }
    return stop;
}

/* A number times 10^scale, if that is an integer of at most `most` (38 or less) digits. */
static int scaled_number(const number_t *n, int scale, int most, i128 *value) {
    const uint8_t *first = n->digits, *last = n->digits_end;
    while (first < last && (*first == '0' || *first == '.')) first++;
    *value = 0;
    if (first == last) return 1;
    int64_t exponent = scale - n->fraction + n->exponent;
    while (last[-1] == '0' || last[-1] == '.') exponent += *--last == '0';
    int64_t digits = 0;
    u128 found = 0;
    for (; first < last; first++) {
        if (*first == '.') continue;
        if (++digits > most) return 0;
        found = found * 10 + (u128)(*first - '0');
    }
    if (exponent < 0 || digits + exponent > most) return 0;
    while (exponent-- > 0) found *= 10;
    *value = n->negative ? -(i128)found : (i128)found;
    return 1;
}

static const double ten_to[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static int slow_double(reader_t *r, const uint8_t *p, const uint8_t *stop, double *value) {
    r->scratch.used = 0;
    if (!bytes_room(&r->scratch, stop - p + 1)) {
        r->memory = 1;
        return 0;
    }
    memcpy(r->scratch.data, p, (size_t)(stop - p));
    r->scratch.data[stop - p] = 0;
    *value = strtod_l((const char *)r->scratch.data, NULL, c_locale);
    return 1;
}

/* The nearest double; NULL if that is infinite. */
static inline const uint8_t *read_double(reader_t *r, const uint8_t *p, double *value) {
    const uint8_t *end = r->end, *start = p;
    int negative = p < end && *p == '-';
    p += negative;
    if (p >= end || !is_digit(*p)) return NULL;
    const uint8_t *first = p;
    uint64_t digits = 0;
    p = *p == '0' ? p + 1 : read_digits(p, end, &digits);
    int64_t count = p - first, exponent = 0;
    if (p < end && *p == '.') {
        const uint8_t *dot = ++p;
        p = read_digits(p, end, &digits);
        if (p == dot) return NULL;
        exponent = dot - p;
        count += p - dot;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        number_t n;
        if (!(p = read_number(start, end, &n))) return NULL;
        exponent += n.exponent;
    }
#if FLT_EVAL_METHOD == 0
    /* Both operands are exact, so the one rounding is the right one. */
    if (count <= 19 && digits <= (1ull << 53) && exponent >= -22 && exponent <= 22) {
        double found = (double)digits;
        found = exponent < 0 ? found / ten_to[-exponent] : found * ten_to[exponent];
        *value = negative ? -found : found;
        return p;
    }
#endif
    if (!slow_double(r, start, p, value) || isinf(*value)) return NULL;
    return p;
}

#endif
