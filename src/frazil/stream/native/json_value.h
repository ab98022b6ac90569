/* Values that stand in strings: dates, times, uuids, base64. Each gives 1, or 0 if the text is not exactly one. */
#ifndef FRAZIL_JSON_VALUE_H
#define FRAZIL_JSON_VALUE_H

#include "json_number.h"

#define MINUTE_MICROS 60000000ll
#define DAY_MICROS (1440 * MINUTE_MICROS)
/* The first and the last instant of the years 0001 to 9999. */
#define FIRST_MICROS (-62135596800000000ll)
#define LAST_MICROS 253402300799999999ll

static int two_digits(const uint8_t *p) {
    return is_digit(p[0]) && is_digit(p[1]) ? (p[0] - '0') * 10 + (p[1] - '0') : -1;
}

/* `YYYY-MM-DD` in 10 bytes as days since 1970. */
static int read_date(const uint8_t *p, int64_t length, int32_t *days) {
    static const uint8_t month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (length != 10 || p[4] != '-' || p[7] != '-') return 0;
    int century = two_digits(p), rest = two_digits(p + 2), month = two_digits(p + 5), day = two_digits(p + 8);
    if (century < 0 || rest < 0 || month < 1 || month > 12 || day < 1) return 0;
    int year = century * 100 + rest;
    int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (year < 1 || day > month_days[month - 1] + (month == 2 && leap)) return 0;
    /* Counted from March, so that a leap day ends its year; 306 days from March to the end of December. */
    int since_march = (month + 9) % 12;
    int march_year = year - (month < 3);
    int32_t found = march_year * 365 + march_year / 4 - march_year / 100 + march_year / 400;
    *days = found + (since_march * 306 + 5) / 10 + day - 1 - 719468;
    return 1;
}

/* `HH:MM[:SS[.f]]` as far as it goes: the place after it, NULL if it is none. */
static const uint8_t *read_clock(const uint8_t *p, const uint8_t *end, int64_t *micros) {
    if (end - p < 5 || p[2] != ':') return NULL;
    int hour = two_digits(p), minute = two_digits(p + 3), second = 0;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59) return NULL;
    p += 5;
    int32_t nanos = 0;
    if (end - p >= 3 && *p == ':') {
        second = two_digits(p + 1);
        if (second < 0 || second > 59) return NULL;
        p += 3;
        if (p < end && *p == '.') {
            const uint8_t *dot = p++;
            for (; p < end && is_digit(*p); p++)
                if (p - dot <= 9) nanos = nanos * 10 + (*p - '0');
            int digits = p - dot - 1 > 9 ? 10 : (int)(p - dot - 1);
            if (digits < 1 || digits > 9) return NULL;
            while (digits++ < 9) nanos *= 10;
            if (nanos % 1000) return NULL;
        }
    }
    *micros = (hour * 60 + minute) * MINUTE_MICROS + second * 1000000ll + nanos / 1000;
    return p;
}

static int read_time(const uint8_t *p, int64_t length, int64_t *micros) {
    return read_clock(p, p + length, micros) == p + length;
}

/* `Z`, `+HH`, `+HHMM` or `+HH:MM`, and no more. */
static int read_zone(const uint8_t *p, const uint8_t *end, int64_t *micros) {
    int64_t length = end - p;
    *micros = 0;
    if (length == 1 && *p == 'Z') return 1;
    if ((length != 3 && length != 5 && length != 6) || (*p != '+' && *p != '-')) return 0;
    if (length == 6 && p[3] != ':') return 0;
    int hours = two_digits(p + 1), minutes = length == 3 ? 0 : two_digits(end - 2);
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return 0;
    *micros = (hours * 60 + minutes) * MINUTE_MICROS * (*p == '-' ? -1 : 1);
    return 1;
}

/* ISO 8601, with a zone or without. */
static int read_timestamp(const uint8_t *p, int64_t length, int zoned, int64_t *micros) {
    const uint8_t *end = p + length;
    int32_t days;
    int64_t clock, offset = 0;
    if (length < 16 || (p[10] != 'T' && p[10] != ' ') || !read_date(p, 10, &days)) return 0;
    p = read_clock(p + 11, end, &clock);
    if (!p || (zoned ? !read_zone(p, end, &offset) : p != end)) return 0;
    *micros = days * DAY_MICROS + clock - offset;
    return *micros >= FIRST_MICROS && *micros <= LAST_MICROS;
}

/* A number of units that are 10^scale microseconds. */
static inline const uint8_t *read_instant(const uint8_t *p, const uint8_t *end, int scale, int64_t *micros) {
    static const int64_t factors[] = {1, 10, 100, 1000, 10000, 100000, 1000000};
    uint64_t whole;
    int negative;
    const uint8_t *stop = read_integer(p, end, &whole, &negative);
    i128 found;
    if (stop && !is_real(stop, end)) {
        found = (i128)whole * factors[scale];
        if (negative) found = -found;
    } else {
        number_t n;
        if (!(stop = read_number(p, end, &n)) || !scaled_number(&n, scale, 19, &found)) return NULL;
    }
    if (found < FIRST_MICROS || found > LAST_MICROS) return NULL;
    *micros = (int64_t)found;
    return stop;
}

static int read_uuid(const uint8_t *p, int64_t length, uint8_t *to) {
    if (length != 36) return 0;
    for (int i = 0, byte = 0; byte < 16; byte++) {
        if (i == 8 || i == 13 || i == 18 || i == 23)
            if (p[i++] != '-') return 0;
        int high = hex_value(p[i]), low = hex_value(p[i + 1]);
        if (high < 0 || low < 0) return 0;
        to[byte] = (uint8_t)(high << 4 | low);
        i += 2;
    }
    return 1;
}

static int base64_value(uint8_t c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (is_digit(c)) return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* The bytes that base64 text of this length stands for; -1 if it cannot be. */
static int64_t base64_size(const uint8_t *p, int64_t length) {
    if (length % 4) return -1;
    if (!length) return 0;
    return length / 4 * 3 - (p[length - 1] == '=') - (p[length - 1] == '=' && p[length - 2] == '=');
}

/* Standard alphabet, padded; bits that no byte takes up are zero. `size` is of base64_size. */
static int read_base64(const uint8_t *p, int64_t size, uint8_t *to) {
    uint32_t bits = 0;
    for (int64_t done = 0; done < size; p += 4) {
        int take = size - done >= 3 ? 3 : (int)(size - done);
        bits = 0;
        for (int i = 0; i < 4; i++) {
            int value = i <= take ? base64_value(p[i]) : 0;
            if (value < 0) return 0;
            bits = bits << 6 | (uint32_t)value;
        }
        for (int i = 0; i < take; i++) to[done++] = (uint8_t)(bits >> (16 - 8 * i));
        if (bits & (take == 1 ? 0xFFFFu : take == 2 ? 0xFFu : 0u)) return 0;
    }
    return 1;
}

#endif
