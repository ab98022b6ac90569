/* What is wanted of a message: a tree that follows the columns of the table. */
#ifndef FRAZIL_PROTOBUF_PLAN_H
#define FRAZIL_PROTOBUF_PLAN_H

#include "columns_text.h"

/* How a value stands on the wire. The numbers are known to frazil.stream.decode.protobuf_plan. */
typedef enum {
    S_BOOL = 0,
    S_INT32,
    S_INT64,
    S_UINT32,
    S_UINT64,
    S_SINT32,
    S_SINT64,
    S_FIXED32,
    S_FIXED64,
    S_SFIXED32,
    S_SFIXED64,
    S_FLOAT,
    S_DOUBLE,
    S_ENUM,
    S_STRING,
    S_BYTES,
    S_MESSAGE,
    S_TIMESTAMP,
    S_DURATION,
    S_COUNT
} source_t;

/* What a field is for: the column; nothing, but it clears its oneof; nothing, and it makes the record bad; a column
   that it does not fit. */
typedef enum { U_COLUMN = 0, U_CLEARS, U_UNKNOWN, U_CONFLICT, U_COUNT } use_t;
typedef enum { C_ONE = 0, C_LIST, C_MAP, C_COUNT } count_t;
/* Without a value: the default, null, or the record is bad. */
typedef enum { P_IMPLICIT = 0, P_EXPLICIT, P_REQUIRED, P_COUNT } presence_t;

enum { W_VARINT = 0, W_64 = 1, W_BYTES = 2, W_START = 3, W_END = 4, W_32 = 5 };

typedef struct {
    int64_t number;
    uint8_t *name;
    int64_t length;
} word_t;

struct message;

/* Single values that fit their column always, and go into it at once. */
typedef enum { Q_NONE = 0, Q_LONG, Q_INT, Q_DOUBLE, Q_STRING } quick_t;

typedef struct {
    uint32_t number;
    uint32_t tag; /* number and form of one value, if that is one byte; else no byte is like it */
    quick_t quick;
    source_t source;
    use_t use;
    count_t count;
    presence_t presence;
    int wire;    /* of one value */
    int wrapper; /* the value is field 1 of a message */
    int32_t oneof, column, slot;
    struct message *inner; /* of messages, and the entries of maps */
    word_t *words;         /* of enums, by number */
    int32_t words_count;
} entry_t;

typedef struct message {
    entry_t *entries; /* by number */
    int32_t count;
    int32_t columns;      /* children that the columns have to have */
    int32_t *missing;     /* columns that no field has */
    int32_t missing_count;
    int32_t *slotted; /* the slots of its entries */
    int32_t slotted_count;
    int16_t dense[64]; /* number -> entry, -1 for none */
} message_t;

static int is_message(source_t source) { return source >= S_MESSAGE; }

static int wire_of(source_t source) {
    switch (source) {
    case S_FIXED32:
    case S_SFIXED32:
    case S_FLOAT: return W_32;
    case S_FIXED64:
    case S_SFIXED64:
    case S_DOUBLE: return W_64;
    case S_STRING:
    case S_BYTES:
    case S_MESSAGE:
    case S_TIMESTAMP:
    case S_DURATION: return W_BYTES;
    default: return W_VARINT;
    }
}

static inline const entry_t *find_entry(const message_t *m, uint32_t number) {
    if (number < 64) return m->dense[number] < 0 ? NULL : &m->entries[m->dense[number]];
    int32_t low = 0, high = m->count;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (m->entries[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->count && m->entries[low].number == number ? &m->entries[low] : NULL;
}

static void message_free(message_t *m) {
    if (!m) return;
    for (int32_t i = 0; i < m->count; i++) {
        entry_t *e = &m->entries[i];
        for (int32_t w = 0; w < e->words_count; w++) free(e->words[w].name);
        free(e->words);
        message_free(e->inner);
    }
    free(m->entries);
    free(m->missing);
    free(m->slotted);
    free(m);
}

static int wrong_plan(void) {
    PyErr_SetString(PyExc_ValueError, "a plan that no message makes");
    return 0;
}

/* ((number, name), …) by number. */
static int read_words(PyObject *words, entry_t *e) {
    Py_ssize_t count = PyTuple_Size(words);
    if (!(e->words = calloc((size_t)count + 1, sizeof(word_t)))) return PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *word = PyTuple_GetItem(words, i);
        const char *name;
        Py_ssize_t length;
        long long number;
        if (!PyTuple_Check(word)) return wrong_plan();
        if (!PyArg_ParseTuple(word, "Ly#", &number, &name, &length)) return 0;
        if (i && e->words[i - 1].number >= number) return wrong_plan();
        uint8_t *copy = malloc((size_t)length + 16);
        if (!copy) return PyErr_NoMemory() != NULL;
        memcpy(copy, name, (size_t)length);
        e->words[i] = (word_t){number, copy, length};
        e->words_count = (int32_t)(i + 1);
    }
    return 1;
}

static int fits(const entry_t *e, const column_t *c);
static message_t *read_message_plan(PyObject *description, const column_t *children, int32_t count, int32_t *slots);

/* The column that single values go to, and the plan below it. */
static int read_inner(PyObject *inner, entry_t *e, const column_t *children, int32_t *slots) {
    const column_t *c = &children[e->column];
    if (e->count == C_MAP) {
        if (c->kind != K_MAP || inner == Py_None) return wrong_plan();
        e->inner = read_message_plan(inner, c->children, 2, slots);
        return e->inner != NULL;
    }
    if (e->count == C_LIST) {
        if (c->kind != K_LIST) return wrong_plan();
        c = &c->children[0];
    }
    if (e->source == S_MESSAGE && !e->wrapper) {
        if (c->kind != K_STRUCT || inner == Py_None) return wrong_plan();
        e->inner = read_message_plan(inner, c->children, c->count, slots);
        return e->inner != NULL;
    }
    return fits(e, c) || wrong_plan();
}

static quick_t quick_of(source_t source, kind_t kind) {
    if (source == S_INT64 && kind == K_LONG) return Q_LONG;
    if (source == S_INT32 && kind == K_INT) return Q_INT;
    if (source == S_DOUBLE && kind == K_DOUBLE) return Q_DOUBLE;
    return source == S_STRING && kind == K_STRING ? Q_STRING : Q_NONE;
}

/* (number, source, use, count, presence, wrapper, oneof, column, inner, words) */
static int read_entry(PyObject *description, entry_t *e, const column_t *children, int32_t count, int32_t *slots) {
    int source, use, many, presence;
    unsigned int number;
    PyObject *inner, *words;
    if (!PyTuple_Check(description)) return wrong_plan();
    if (!PyArg_ParseTuple(description, "IiiiipiiOO!", &number, &source, &use, &many, &presence, &e->wrapper, &e->oneof,
                          &e->column, &inner, &PyTuple_Type, &words))
        return 0;
    if (!number || number >= 1u << 29 || source < 0 || source >= S_COUNT || use < 0 || use >= U_COUNT || many < 0 ||
        many >= C_COUNT || presence < 0 || presence >= P_COUNT || e->oneof < -1 || (e->wrapper && is_message(source)))
        return wrong_plan();
    e->number = number;
    e->source = (source_t)source;
    e->use = (use_t)use;
    e->count = (count_t)many;
    e->presence = (presence_t)presence;
    e->wire = e->wrapper || many == C_MAP ? W_BYTES : wire_of(e->source);
    e->tag = number < 16 ? number << 3 | (uint32_t)e->wire : UINT32_MAX;
    e->slot = -1;
    if (!read_words(words, e)) return 0;
    if (e->use == U_UNKNOWN) e->slot = (*slots)++;
    if (e->use == U_CLEARS || e->use == U_UNKNOWN) return e->column < 0 || wrong_plan();
    if (e->column < 0 || e->column >= count) return wrong_plan();
    if (e->use == U_COLUMN && e->count == C_ONE && !e->wrapper)
        e->quick = quick_of(e->source, children[e->column].kind);
    if (!e->quick) e->slot = (*slots)++;
    return e->use == U_CONFLICT || read_inner(inner, e, children, slots);
}

/* Each column has one field or none. */
static int finish_plan(message_t *m, int32_t count) {
    m->columns = count;
    if (!(m->missing = malloc(((size_t)count + 1) * sizeof(int32_t)))) return PyErr_NoMemory() != NULL;
    for (int32_t column = 0; column < count; column++) {
        int32_t found = 0;
        for (int32_t i = 0; i < m->count; i++) found += m->entries[i].column == column;
        if (found > 1) return wrong_plan();
        if (!found) m->missing[m->missing_count++] = column;
    }
    if (!(m->slotted = malloc(((size_t)m->count + 1) * sizeof(int32_t)))) return PyErr_NoMemory() != NULL;
    for (int32_t i = 0; i < m->count; i++)
        if (m->entries[i].slot >= 0) m->slotted[m->slotted_count++] = m->entries[i].slot;
    return 1;
}

/* A tuple of entries by number; NULL with an error. */
static message_t *read_message_plan(PyObject *description, const column_t *children, int32_t count, int32_t *slots) {
    if (!PyTuple_Check(description)) return wrong_plan(), NULL;
    Py_ssize_t size = PyTuple_Size(description);
    message_t *m = calloc(1, sizeof(message_t));
    if (m) m->entries = calloc((size_t)size + 1, sizeof(entry_t));
    if (!m || !m->entries || size > INT16_MAX) {
        message_free(m);
        return size > INT16_MAX ? (wrong_plan(), NULL) : (message_t *)PyErr_NoMemory();
    }
    memset(m->dense, 0xFF, sizeof(m->dense));
    int good = 1;
    for (Py_ssize_t i = 0; i < size && good; i++) {
        entry_t *e = &m->entries[i];
        m->count = (int32_t)(i + 1);
        good = read_entry(PyTuple_GetItem(description, i), e, children, count, slots);
        if (good && i && m->entries[i - 1].number >= e->number) good = wrong_plan();
        if (good && e->number < 64) m->dense[e->number] = (int16_t)i;
    }
    if (good && finish_plan(m, count)) return m;
    message_free(m);
    return NULL;
}

/* Can values of the field go into the column? */
static int fits(const entry_t *e, const column_t *c) {
    switch (e->source) {
    case S_BOOL: return c->kind == K_BOOLEAN;
    case S_FLOAT:
    case S_DOUBLE: return c->kind == K_FLOAT || c->kind == K_DOUBLE;
    case S_ENUM: return c->kind == K_STRING || c->kind == K_INT || c->kind == K_LONG;
    case S_STRING:
        return c->kind == K_STRING || c->kind == K_UUID || c->kind == K_DECIMAL ||
               (c->kind >= K_DATE && c->kind <= K_TIMESTAMPTZ);
    case S_BYTES: return c->kind == K_BINARY || c->kind == K_FIXED || c->kind == K_UUID;
    case S_TIMESTAMP: return c->kind == K_TIMESTAMPTZ;
    case S_DURATION: return c->kind == K_LONG;
    case S_MESSAGE: return 0;
    default: return c->kind == K_INT || c->kind == K_LONG || c->kind == K_DECIMAL;
    }
}

#endif
