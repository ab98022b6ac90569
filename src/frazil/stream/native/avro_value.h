/* Single values of Avro's binary form. */
#ifndef FRAZIL_AVRO_VALUE_H
#define FRAZIL_AVRO_VALUE_H

#include "columns_module.h"

/* The first and the last day of the years 0001 to 9999. */
#define FIRST_DAY (-719162)
#define LAST_DAY 2932896

static const uint8_t *read_long_varint(const uint8_t *p, const uint8_t *end, int64_t *value) {
    uint64_t whole = 0;
    for (int shift = 0; shift < 70 && p < end; shift += 7) {
        uint8_t byte = *p++;
        if (shift == 63 && byte > 1) return NULL;
        whole |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (int64_t)(whole >> 1 ^ (~(whole & 1) + 1));
            return p;
        }
    }
    return NULL;
}

/* Zigzag, 7 bits to the byte; at most 10 bytes, and 64 bits. */
static inline const uint8_t *read_varint(const uint8_t *p, const uint8_t *end, int64_t *value) {
    if (p < end && *p < 0x80) {
        *value = *p >> 1 ^ -(*p & 1);
        return p + 1;
    }
    return read_long_varint(p, end, value);
}

/* Up to 16 bytes where 16 can be read: is none above 0x7F? */
static inline int short_ascii(const uint8_t *p, int64_t size) {
    const uint64_t high_bits = 0x8080808080808080ull;
    uint64_t low = load64(p) & high_bits, high = load64(p + 8) & high_bits;
    if (size <= 8) return !(low & (size == 8 ? ~0ull : (1ull << (8 * size)) - 1));
    return !(low | (high & (size == 16 ? ~0ull : (1ull << (8 * (size - 8))) - 1)));
}

static int utf8_valid(const uint8_t *p, int64_t length) {
    const uint8_t *end = p + length;
    while (p < end) {
        while (end - p >= 8 && !(load64(p) & 0x8080808080808080ull)) p += 8;
        while (p < end && *p < 0x80) p++;
        if (p == end) break;
        int size = utf8_length(p, end);
        if (!size) return 0;
        p += size;
    }
    return 1;
}

static i128 power_of_ten(int exponent) {
    i128 found = 1;
    while (exponent-- > 0) found *= 10;
    return found;
}

/* A big-endian number of at most 38 digits, moved by so many, if that is exactly one of the precision. */
static int read_decimal(const uint8_t *p, int64_t size, int moved, int precision, i128 *value) {
    if (size < 1) return 0;
    uint8_t sign = p[0] & 0x80 ? 0xFF : 0;
    for (; size > 16; p++, size--)
        if (*p != sign) return 0;
    u128 bits = sign ? ~(u128)0 : 0;
    for (int64_t i = 0; i < size; i++) bits = bits << 8 | p[i];
    i128 found = (i128)bits, most = power_of_ten(38);
    /* What was cut off were signs only if the rest still has the same. */
    if ((found < 0) != (sign != 0) || found <= -most || found >= most) return 0;
    if (moved < 0) {
        i128 factor = power_of_ten(-moved);
        if (found % factor) return 0;
        found /= factor;
    } else if (found) {
        i128 factor = power_of_ten(moved), room = (most - 1) / factor;
        if (found > room || found < -room) return 0;
        found *= factor;
    }
    most = power_of_ten(precision);
    *value = found;
    return found > -most && found < most;
}

#endif
