/* Arrow columns that grow, and can be taken back to a row. */
#ifndef FRAZIL_JSON_COLUMN_H
#define FRAZIL_JSON_COLUMN_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The numbers are known to frazil.stream.decode.columns. */
typedef enum {
    K_BOOLEAN = 0,
    K_INT,
    K_LONG,
    K_FLOAT,
    K_DOUBLE,
    K_DECIMAL,
    K_STRING,
    K_DATE,
    K_TIME,
    K_TIMESTAMP,
    K_TIMESTAMPTZ,
    K_INSTANT,
    K_UUID,
    K_BINARY,
    K_FIXED,
    K_LIST,
    K_MAP,
    K_STRUCT,
    K_RAW,  /* any value, as it stands in the record; of JSON alone, like the next */
    K_SKIP, /* any value, and nothing is kept of it: its name is known, which is quicker */
    K_COUNT
} kind_t;

typedef struct {
    uint8_t *data;
    int64_t used, room;
} bytes_t;

/* What a column is, shared by all batches; and what it holds, of one batch. */
typedef struct column {
    kind_t kind;
    int required;
    int32_t width; /* bytes of a value in `fixed`; 0 if there are none */
    int32_t precision, scale;
    /* The name and a closing quote; `head` and `mask` are its first 8 bytes. Not `plain`: has to be escaped. */
    uint8_t *name;
    int32_t name_length;
    int plain;
    uint64_t head, mask;
    int32_t count;
    struct column *children;
    int32_t *slots; /* struct: hash of name -> child, -1 for none; a power of two */
    uint32_t slots_mask;

    int64_t length, capacity; /* capacity is a multiple of 64 */
    uint8_t *validity;        /* NULL: no nulls. Bits at and after `length` are all 1 */
    uint8_t *fixed;
    int32_t *offsets;
    bytes_t text;
} column_t;

static inline int has_offsets(const column_t *c) {
    return c->kind == K_STRING || c->kind == K_BINARY || c->kind == K_LIST || c->kind == K_MAP ||
           c->kind == K_RAW;
}

/* Bytes of `fixed` for so many values, a multiple of 64. */
static inline size_t fixed_size(const column_t *c, int64_t values) {
    return c->kind == K_BOOLEAN ? (size_t)values / 8 : (size_t)values * (size_t)c->width;
}

static int column_reserve(column_t *c, int64_t wanted) {
    int64_t capacity = c->capacity ? c->capacity : 64;
    while (capacity < wanted) capacity *= 2;
    if (capacity == c->capacity) return 1;
    if (c->kind == K_BOOLEAN || c->width) {
        uint8_t *grown = realloc(c->fixed, fixed_size(c, capacity));
        if (!grown) return 0;
        if (c->kind == K_BOOLEAN)
            memset(grown + c->capacity / 8, 0, (size_t)(capacity - c->capacity) / 8);
        c->fixed = grown;
    }
    if (has_offsets(c)) {
        int32_t *grown = realloc(c->offsets, ((size_t)capacity + 1) * sizeof(int32_t));
        if (!grown) return 0;
        if (!c->offsets) grown[0] = 0;
        c->offsets = grown;
    }
    if (c->validity) {
        uint8_t *grown = realloc(c->validity, (size_t)capacity / 8);
        if (!grown) return 0;
        memset(grown + c->capacity / 8, 0xFF, (size_t)(capacity - c->capacity) / 8);
        c->validity = grown;
    }
    c->capacity = capacity;
    return 1;
}

/* Room for one more value. */
static inline int column_room(column_t *c) {
    return c->length < c->capacity || column_reserve(c, c->length + 1);
}

/* Room for so many bytes, and 16 more that may be scribbled on. */
static inline int bytes_room(bytes_t *b, int64_t more) {
    if (b->room - b->used >= more + 16) return 1;
    int64_t room = b->room ? b->room : 1024;
    while (room - b->used < more + 16) room *= 2;
    uint8_t *grown = realloc(b->data, (size_t)room);
    if (!grown) return 0;
    b->data = grown;
    b->room = room;
    return 1;
}

/* A null, or for a required column below a null struct: some value that nobody will see. */
static int column_empty(column_t *c, int null) {
    if (!column_room(c)) return 0;
    int64_t at = c->length;
    if (null && c->kind != K_SKIP) {
        if (!c->validity) {
            c->validity = malloc((size_t)c->capacity / 8);
            if (!c->validity) return 0;
            memset(c->validity, 0xFF, (size_t)c->capacity / 8);
        }
        c->validity[at / 8] &= (uint8_t)~(1u << (at % 8));
    }
    if (c->kind == K_BOOLEAN)
        c->fixed[at / 8] &= (uint8_t)~(1u << (at % 8));
    else if (c->width)
        memset(c->fixed + at * c->width, 0, (size_t)c->width);
    if (has_offsets(c)) c->offsets[at + 1] = c->offsets[at];
    if (c->kind == K_STRUCT)
        for (int32_t i = 0; i < c->count; i++)
            if (!column_empty(&c->children[i], !c->children[i].required)) return 0;
    c->length = at + 1;
    return 1;
}

/* Forgets all after the first `length` values, those half written among them. */
static void column_rollback(column_t *c, int64_t length) {
    if (c->validity)
        for (int64_t i = length; i < c->length; i++) c->validity[i / 8] |= (uint8_t)(1u << (i % 8));
    if (c->length > length) c->length = length;
    int64_t inner = has_offsets(c) && c->offsets ? c->offsets[length] : 0;
    c->text.used = inner;
    for (int32_t i = 0; i < c->count; i++)
        column_rollback(&c->children[i], c->kind == K_STRUCT ? length : inner);
}

static void column_free_values(column_t *c) {
    free(c->validity);
    free(c->fixed);
    free(c->offsets);
    free(c->text.data);
    for (int32_t i = 0; i < c->count; i++) column_free_values(&c->children[i]);
}

/* The same columns for a new batch. Names and hash slots stay the plan's; freed by column_free_copy. */
static int column_copy(const column_t *from, column_t *to) {
    *to = *from;
    to->children = NULL;
    if (!from->count) return 1;
    to->children = calloc((size_t)from->count, sizeof(column_t));
    if (!to->children) {
        to->count = 0;
        return 0;
    }
    for (int32_t i = 0; i < from->count; i++)
        if (!column_copy(&from->children[i], &to->children[i])) return 0;
    return 1;
}

static void column_free_children(column_t *c) {
    for (int32_t i = 0; i < c->count; i++) column_free_children(&c->children[i]);
    free(c->children);
}

static void column_free_copy(column_t *c) {
    column_free_values(c);
    column_free_children(c);
}

static void column_free_plan(column_t *c) {
    for (int32_t i = 0; i < c->count; i++) column_free_plan(&c->children[i]);
    free(c->name);
    free(c->slots);
    free(c->children);
}

#endif
