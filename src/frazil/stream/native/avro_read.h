/* One record into columns, led by a program. A function gives the place after what it read; NULL: bad. */
#ifndef FRAZIL_AVRO_READ_H
#define FRAZIL_AVRO_READ_H

#include "avro_plan.h"

typedef struct {
    const uint8_t *end;   /* of the record */
    const uint8_t *limit; /* of what may be looked at: the whole batch */
    column_t **columns;
    int depth;
    int memory; /* 1: out of memory, the record is not to blame */
    int unfit;  /* 1: well-formed, but something does not fit its column */
} avro_t;

static const uint8_t *read_value(avro_t *r, const uint8_t *p, const step_t *s);

static inline const uint8_t *no_memory(avro_t *r) {
    r->memory = 1;
    return NULL;
}

/* A value was read that does not fit. */
static const uint8_t *unfit(avro_t *r, const uint8_t *p, const step_t *s, column_t *c) {
    if (s->discards) return column_empty(c, 1) ? p : no_memory(r);
    r->unfit = 1;
    return NULL;
}

/* The size of what follows, and that it is there. */
static inline const uint8_t *read_size(const uint8_t *p, const uint8_t *end, int64_t *size) {
    p = read_varint(p, end, size);
    return p && *size >= 0 && *size <= end - p ? p : NULL;
}

/* The next block: how many elements, 0 at the end. `size` is that of the block, -1 if it does not say. */
static const uint8_t *read_block(const uint8_t *p, const uint8_t *end, int64_t *count, int64_t *size) {
    *size = -1;
    if (!(p = read_varint(p, end, count)) || *count >= 0) return p;
    *count = *count == INT64_MIN ? INT64_MAX : -*count;
    return read_varint(p, end, size);
}

static const uint8_t *skip_blocks(avro_t *r, const uint8_t *p, const step_t *s) {
    int64_t count, size, length;
    if (++r->depth > MAX_DEPTH) return NULL;
    for (;;) {
        const uint8_t *block = p;
        if (!(p = read_block(p, r->end, &count, &size))) return NULL;
        if (!count) break;
        /* The first byte of a count below zero is odd. */
        if (*block & 1) {
            if (size < 0 || size > r->end - p) return NULL;
            p += size;
            continue;
        }
        if (s->number) continue;
        if (count > r->end - p) return NULL;
        for (; count; count--) {
            if (s->op == SKIP_MAP) {
                if (!(p = read_size(p, r->end, &length))) return NULL;
                p += length;
            }
            if (!(p = read_value(r, p, s->children[0]))) return NULL;
        }
    }
    r->depth--;
    return p;
}

static const uint8_t *skip_step(avro_t *r, const uint8_t *p, const step_t *s) {
    int64_t number;
    switch (s->op) {
    case SKIP_VARINT: return read_varint(p, r->end, &number);
    case SKIP_BYTES: return (p = read_size(p, r->end, &number)) ? p + number : NULL;
    case SKIP_FIXED: return s->number <= r->end - p ? p + s->number : NULL;
    case SKIP_UNION:
        if (!(p = read_varint(p, r->end, &number)) || number < 0 || number >= s->count) return NULL;
        return skip_step(r, p, s->children[number]);
    case SKIP_RECORD:
        if (++r->depth > MAX_DEPTH) return NULL;
        for (int32_t i = 0; i < s->count; i++)
            if (!(p = skip_step(r, p, s->children[i]))) return NULL;
        r->depth--;
        return p;
    default: return skip_blocks(r, p, s);
    }
}

static const uint8_t *read_array(avro_t *r, const uint8_t *p, const step_t *s, column_t *c) {
    int64_t count, size;
    for (;;) {
        if (!(p = read_block(p, r->end, &count, &size))) return NULL;
        if (!count) break;
        if (count > r->end - p) return NULL; /* each takes a byte at least */
        for (; count; count--)
            if (!(p = read_value(r, p, s->children[0]))) return NULL;
    }
    c->offsets[c->length + 1] = (int32_t)c->children[0].length;
    c->length++;
    return p;
}

typedef struct {
    const uint8_t *text;
    int64_t length;
} key_text_t;

static int compare_keys(const void *a, const void *b) {
    const key_text_t *one = a, *other = b;
    if (one->length != other->length) return one->length < other->length ? -1 : 1;
    return memcmp(one->text, other->text, (size_t)one->length);
}

static inline key_text_t key_at(const column_t *keys, int64_t at) {
    return (key_text_t){keys->text.data + keys->offsets[at], keys->offsets[at + 1] - keys->offsets[at]};
}

static int keys_differ(avro_t *r, const column_t *keys, int64_t first) {
    int64_t count = keys->length - first;
    if (!keys->text.data) return count < 2; /* all are empty */
    if (count <= 8) {
        for (int64_t i = 1; i < count; i++) {
            key_text_t one = key_at(keys, first + i);
            for (int64_t j = 0; j < i; j++) {
                key_text_t other = key_at(keys, first + j);
                if (compare_keys(&one, &other) == 0) return 0;
            }
        }
        return 1;
    }
    /* Sorted, so that chosen keys cost no more than others. */
    key_text_t *sorted = malloc((size_t)count * sizeof(key_text_t));
    if (!sorted) {
        r->memory = 1;
        return 0;
    }
    for (int64_t i = 0; i < count; i++) sorted[i] = key_at(keys, first + i);
    qsort(sorted, (size_t)count, sizeof(key_text_t), compare_keys);
    int differ = 1;
    for (int64_t i = 1; i < count && differ; i++) differ = compare_keys(&sorted[i - 1], &sorted[i]) != 0;
    free(sorted);
    return differ;
}

static const uint8_t *read_map(avro_t *r, const uint8_t *p, const step_t *s, column_t *c) {
    column_t *keys = &c->children[0];
    int64_t first = keys->length, count, size;
    for (;;) {
        if (!(p = read_block(p, r->end, &count, &size))) return NULL;
        if (!count) break;
        if (count > r->end - p) return NULL;
        for (; count; count--) {
            if (!(p = read_value(r, p, s->children[0]))) return NULL;
            if (!(p = read_value(r, p, s->children[1]))) return NULL;
        }
    }
    if (!keys_differ(r, keys, first)) return NULL;
    c->offsets[c->length + 1] = (int32_t)keys->length;
    c->length++;
    return p;
}

static const uint8_t *read_members(avro_t *r, const uint8_t *p, const step_t *s, column_t *c) {
    if (++r->depth > MAX_DEPTH) return NULL;
    if (s->op == READ_RECORD) {
        for (int32_t i = 0; i < s->count; i++)
            if (!(p = read_value(r, p, s->children[i]))) return NULL;
        c->length++;
    } else
        p = s->op == READ_ARRAY ? read_array(r, p, s, c) : read_map(r, p, s, c);
    r->depth--;
    return p;
}

static const uint8_t *read_nested(avro_t *r, const uint8_t *p, const step_t *s, column_t *c) {
    int depth = r->depth;
    const uint8_t *after = read_members(r, p, s, c);
    if (after || !s->skip || !r->unfit || r->memory) return after;
    r->unfit = 0;
    r->depth = depth;
    column_rollback(c, c->length);
    after = skip_step(r, p, s->skip);
    return !after || column_empty(c, 1) ? after : no_memory(r);
}

static inline const uint8_t *put_text(avro_t *r, const uint8_t *p, int64_t size, column_t *c) {
    if (size > INT32_MAX - c->text.used || !bytes_room(&c->text, size)) return no_memory(r);
    uint8_t *to = c->text.data + c->text.used;
    if (size <= 16 && r->limit - p >= 16)
        memcpy(to, p, 16); /* the room has 16 bytes to spare */
    else
        memcpy(to, p, (size_t)size);
    c->text.used += size;
    c->offsets[++c->length] = (int32_t)c->text.used;
    return p + size;
}

static inline const uint8_t *read_string(avro_t *r, const uint8_t *p, const step_t *s, column_t *c) {
    int64_t size;
    if (!(p = read_size(p, r->end, &size))) return NULL;
    if (!(size <= 16 && r->limit - p >= 16 ? short_ascii(p, size) || utf8_valid(p, size) : utf8_valid(p, size)))
        return s->number ? unfit(r, p + size, s, c) : NULL;
    return put_text(r, p, size, c);
}

static const uint8_t *read_enum(avro_t *r, const uint8_t *p, const step_t *s, column_t *c) {
    int64_t index;
    if (!(p = read_varint(p, r->end, &index)) || index < 0 || index >= s->symbol_count) return NULL;
    int32_t start = s->ends[index], size = s->ends[index + 1] - start;
    /* A symbol may be longer than the byte that it takes in the record. */
    if (size > INT32_MAX - c->text.used || !bytes_room(&c->text, size)) return no_memory(r);
    memcpy(c->text.data + c->text.used, s->symbols + start, (size_t)size);
    c->text.used += size;
    c->offsets[++c->length] = (int32_t)c->text.used;
    return p;
}

/* Values that come with their size, or have one by the schema. */
static const uint8_t *read_bytes(avro_t *r, const uint8_t *p, const step_t *s, column_t *c) {
    int64_t size = s->number;
    uint8_t *to = c->width ? c->fixed + c->length * c->width : NULL;
    int fits = 0;
    if (s->op == READ_DECIMAL_OF_FIXED) size = s->children[0]->number;
    if (s->op == READ_FIXED || s->op == READ_BINARY_OF_FIXED || s->op == READ_DECIMAL_OF_FIXED) {
        if (size > r->end - p) return NULL;
    } else if (!(p = read_size(p, r->end, &size)))
        return NULL;
    switch (s->op) {
    case READ_BINARY:
    case READ_BINARY_OF_FIXED: return put_text(r, p, size, c);
    case READ_FIXED:
    case READ_FIXED_OF_BYTES:
        if ((fits = size == c->width)) memcpy(to, p, (size_t)size);
        break;
    case READ_UUID_OF_TEXT: fits = read_uuid(p, size, to); break;
    default: {
        i128 value;
        fits = read_decimal(p, size, (int)s->number, c->precision, &value);
        if (fits) memcpy(to, &value, 16);
    }
    }
    if (!fits) return unfit(r, p + size, s, c);
    c->length++;
    return p + size;
}

/* Microseconds of a time or timestamp, if they are whole and within the bounds. */
static inline int to_micros(int64_t value, int64_t unit, int64_t least, int64_t most, int64_t *micros) {
    *micros = unit < 0 ? value / -unit : 0;
    if (unit > 0 ? __builtin_mul_overflow(value, unit, micros) : value % -unit != 0) return 0;
    return *micros >= least && *micros <= most;
}

/* What is a varint in the record; `narrow` if the writer's type has 32 bits. */
static const uint8_t *read_varied(avro_t *r, const uint8_t *p, const step_t *s, column_t *c) {
    int64_t value, micros;
    if (!(p = read_varint(p, r->end, &value))) return NULL;
    int is_int = value == (int32_t)value, narrow = s->number == 1;
    switch (s->op) {
    case READ_INT:
        if (!is_int) return NULL;
        ((int32_t *)(void *)c->fixed)[c->length++] = (int32_t)value;
        return p;
    case READ_INT_OF_LONG:
        if (!is_int) return unfit(r, p, s, c);
        ((int32_t *)(void *)c->fixed)[c->length++] = (int32_t)value;
        return p;
    case READ_DATE:
        if (!is_int) return NULL;
        if (value < FIRST_DAY || value > LAST_DAY) return unfit(r, p, s, c);
        ((int32_t *)(void *)c->fixed)[c->length++] = (int32_t)value;
        return p;
    case READ_FLOAT_OF_INTEGER:
        if (narrow && !is_int) return NULL;
        ((float *)(void *)c->fixed)[c->length++] = (float)(double)value;
        return p;
    case READ_DOUBLE_OF_INTEGER:
        if (narrow && !is_int) return NULL;
        ((double *)(void *)c->fixed)[c->length++] = (double)value;
        return p;
    case READ_TIME:
        if (s->number == 1000 && !is_int) return NULL;
        if (!to_micros(value, s->number, 0, DAY_MICROS - 1, &micros)) return unfit(r, p, s, c);
        value = micros;
        break;
    case READ_TIMESTAMP:
        if (!to_micros(value, s->number, FIRST_MICROS, LAST_MICROS, &micros)) return unfit(r, p, s, c);
        value = micros;
        break;
    default:
        if (narrow && !is_int) return NULL;
    }
    ((int64_t *)(void *)c->fixed)[c->length++] = value;
    return p;
}

static const uint8_t *read_real(avro_t *r, const uint8_t *p, const step_t *s, column_t *c) {
    int size = s->op == READ_FLOAT || s->op == READ_DOUBLE_OF_FLOAT ? 4 : 8;
    if (r->end - p < size) return NULL;
    float single;
    double wide;
    if (s->op == READ_FLOAT || s->op == READ_DOUBLE)
        memcpy(c->fixed + c->length * size, p, (size_t)size);
    else if (s->op == READ_DOUBLE_OF_FLOAT) {
        memcpy(&single, p, 4);
        ((double *)(void *)c->fixed)[c->length] = (double)single;
    } else {
        memcpy(&wide, p, 8);
        single = (float)wide;
        if (isinf(single) && !isinf(wide)) return unfit(r, p + 8, s, c);
        ((float *)(void *)c->fixed)[c->length] = single;
    }
    c->length++;
    return p + size;
}

static inline const uint8_t *read_boolean(avro_t *r, const uint8_t *p, column_t *c) {
    if (p >= r->end || *p > 1) return NULL;
    uint8_t *byte = &c->fixed[c->length / 8], bit = (uint8_t)(1u << (c->length % 8));
    *byte = *p ? *byte | bit : *byte & (uint8_t)~bit;
    c->length++;
    return p + 1;
}

static const uint8_t *read_value(avro_t *r, const uint8_t *p, const step_t *s) {
    while (s->op == READ_UNION) {
        int64_t branch;
        if (!(p = read_varint(p, r->end, &branch)) || branch < 0 || branch >= s->count) return NULL;
        s = s->children[branch];
    }
    if (s->op < READ_NULL) return skip_step(r, p, s);
    if (s->op == READ_BAD) {
        r->unfit = s->number == 1;
        return NULL;
    }
    column_t *c = r->columns[s->column];
    if (!column_room(c)) return no_memory(r);
    switch (s->op) {
    case READ_DISCARD:
        if (!(p = skip_step(r, p, s->children[0]))) return NULL;
        return column_empty(c, 1) ? p : no_memory(r);
    case READ_NULL: return column_empty(c, 1) ? p : no_memory(r);
    case READ_RECORD:
    case READ_ARRAY:
    case READ_MAP: return read_nested(r, p, s, c);
    case READ_BOOLEAN: return read_boolean(r, p, c);
    case READ_FLOAT:
    case READ_DOUBLE:
    case READ_FLOAT_OF_DOUBLE:
    case READ_DOUBLE_OF_FLOAT: return read_real(r, p, s, c);
    case READ_STRING: return read_string(r, p, s, c);
    case READ_ENUM: return read_enum(r, p, s, c);
    case READ_BINARY:
    case READ_BINARY_OF_FIXED:
    case READ_FIXED:
    case READ_FIXED_OF_BYTES:
    case READ_UUID_OF_TEXT:
    case READ_DECIMAL_OF_BYTES:
    case READ_DECIMAL_OF_FIXED: return read_bytes(r, p, s, c);
    default: return read_varied(r, p, s, c);
    }
}

/* One record, and nothing behind it. */
static int read_record(avro_t *r, const uint8_t *p, const program_t *program) {
    r->depth = r->unfit = 0;
    return read_value(r, p, &program->steps[0]) == r->end;
}

#endif
