/* Programs: what to do with each value of a writer's schema, as frazil.stream.decode.avro_plan makes them. */
#ifndef FRAZIL_AVRO_PLAN_H
#define FRAZIL_AVRO_PLAN_H

#include "avro_value.h"

/* The numbers are those of Op in avro_plan.py. */
typedef enum {
    SKIP_VARINT = 0,
    SKIP_BYTES,
    SKIP_FIXED,
    SKIP_UNION,
    SKIP_RECORD,
    SKIP_ARRAY,
    SKIP_MAP,
    READ_NULL,
    READ_BAD,
    READ_DISCARD,
    READ_UNION,
    READ_RECORD,
    READ_ARRAY,
    READ_MAP,
    READ_BOOLEAN,
    READ_INT,
    READ_INT_OF_LONG,
    READ_LONG,
    READ_FLOAT_OF_INTEGER,
    READ_DOUBLE_OF_INTEGER,
    READ_FLOAT,
    READ_FLOAT_OF_DOUBLE,
    READ_DOUBLE,
    READ_DOUBLE_OF_FLOAT,
    READ_DATE,
    READ_TIME,
    READ_TIMESTAMP,
    READ_STRING,
    READ_BINARY,
    READ_FIXED_OF_BYTES,
    READ_FIXED,
    READ_BINARY_OF_FIXED,
    READ_UUID_OF_TEXT,
    READ_ENUM,
    READ_DECIMAL_OF_BYTES,
    READ_DECIMAL_OF_FIXED,
    OP_COUNT
} op_t;

typedef struct step {
    op_t op;
    int32_t column; /* -1: none */
    int32_t count;
    int discards;
    int64_t number;
    struct step **children;
    struct step *skip; /* over the whole value, where something inside may not fit and all of it becomes null */
    /* Symbols of an enum, one after another; the last of `ends` is where they all end. */
    uint8_t *symbols;
    int32_t *ends, symbol_count;
} step_t;

typedef struct {
    step_t *steps;
    Py_ssize_t count;
} program_t;

/* The columns of a table, and all of them in a row, parents first. */
typedef struct {
    column_t root;
    column_t **all;
    int32_t count;
} layout_t;

static int32_t count_columns(const column_t *c) {
    int32_t count = 1;
    for (int32_t i = 0; i < c->count; i++) count += count_columns(&c->children[i]);
    return count;
}

static column_t **list_columns(column_t *c, column_t **to) {
    *to++ = c;
    for (int32_t i = 0; i < c->count; i++) to = list_columns(&c->children[i], to);
    return to;
}

/* The kinds of columns that an operation may fill, as bits; 0: it fills none. */
static uint32_t kinds_of(op_t op) {
    switch (op) {
    case READ_RECORD: return 1u << K_STRUCT;
    case READ_ARRAY: return 1u << K_LIST;
    case READ_MAP: return 1u << K_MAP;
    case READ_BOOLEAN: return 1u << K_BOOLEAN;
    case READ_INT:
    case READ_INT_OF_LONG: return 1u << K_INT;
    case READ_LONG: return 1u << K_LONG;
    case READ_FLOAT_OF_INTEGER:
    case READ_FLOAT:
    case READ_FLOAT_OF_DOUBLE: return 1u << K_FLOAT;
    case READ_DOUBLE_OF_INTEGER:
    case READ_DOUBLE:
    case READ_DOUBLE_OF_FLOAT: return 1u << K_DOUBLE;
    case READ_DATE: return 1u << K_DATE;
    case READ_TIME: return 1u << K_TIME;
    case READ_TIMESTAMP: return 1u << K_TIMESTAMP | 1u << K_TIMESTAMPTZ;
    case READ_STRING:
    case READ_ENUM: return 1u << K_STRING;
    case READ_BINARY:
    case READ_BINARY_OF_FIXED: return 1u << K_BINARY;
    case READ_FIXED_OF_BYTES: return 1u << K_FIXED;
    case READ_FIXED: return 1u << K_FIXED | 1u << K_UUID;
    case READ_UUID_OF_TEXT: return 1u << K_UUID;
    case READ_DECIMAL_OF_BYTES:
    case READ_DECIMAL_OF_FIXED: return 1u << K_DECIMAL;
    case READ_NULL:
    case READ_DISCARD:
    case READ_UNION: return ~0u;
    default: return 0;
    }
}

static int32_t width_of(kind_t kind) {
    switch (kind) {
    case K_INT:
    case K_FLOAT:
    case K_DATE: return 4;
    case K_LONG:
    case K_DOUBLE:
    case K_TIME:
    case K_TIMESTAMP:
    case K_TIMESTAMPTZ: return 8;
    case K_DECIMAL:
    case K_UUID: return 16;
    default: return 0;
    }
}

/* A step goes with its column and its children, as those of avro_plan.py do. */
static int step_fits(const step_t *s, const layout_t *layout) {
    uint32_t kinds = kinds_of(s->op);
    if (kinds) {
        if (s->column < 0 || s->column >= layout->count) return 0;
        const column_t *c = layout->all[s->column];
        int32_t width = width_of(c->kind);
        if (!(kinds >> c->kind & 1) || (width && c->width != width)) return 0;
        if (s->op == READ_FIXED && s->number != c->width) return 0;
        if ((s->op == READ_NULL || s->op == READ_DISCARD || s->discards) && c->required) return 0;
    }
    if (s->skip && s->skip->op >= READ_NULL) return 0;
    int skips = s->op < READ_NULL || s->op == READ_DISCARD || s->op == READ_DECIMAL_OF_FIXED;
    for (int32_t i = 0; i < s->count; i++) {
        op_t child = s->children[i]->op;
        if ((skips && child >= READ_NULL) || (s->op == READ_UNION && child < READ_NULL)) return 0;
        if ((s->op == READ_UNION && child == READ_UNION) || (s->op == SKIP_UNION && child == SKIP_UNION)) return 0;
    }
    switch (s->op) {
    case SKIP_FIXED:
    case READ_BINARY_OF_FIXED: return s->number >= 0;
    case SKIP_ARRAY:
    case SKIP_MAP:
    case READ_DISCARD:
    case READ_ARRAY: return s->count == 1;
    case READ_MAP: return s->count == 2;
    case READ_DECIMAL_OF_FIXED: return s->count == 1 && s->number >= -38 && s->number <= 38;
    case READ_DECIMAL_OF_BYTES: return s->number >= -38 && s->number <= 38;
    case READ_TIME:
    case READ_TIMESTAMP: return s->number == 1000 || s->number == 1 || s->number == -1000;
    default: return 1;
    }
}

static int read_symbols(PyObject *symbols, step_t *s) {
    Py_ssize_t count = PyTuple_Size(symbols), used = 0, length;
    char *text;
    if (!count) return 1;
    if (count > INT32_MAX / 8 || !(s->ends = malloc(((size_t)count + 1) * sizeof(int32_t)))) goto memory;
    for (Py_ssize_t i = 0; i < count; i++) {
        s->ends[i] = (int32_t)used;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(symbols, i), &text, &length) < 0) return 0;
        if (length > INT32_MAX - 16 - used) goto memory;
        uint8_t *grown = realloc(s->symbols, (size_t)(used + length) + 1);
        if (!grown) goto memory;
        s->symbols = grown;
        memcpy(grown + used, text, (size_t)length);
        used += length;
    }
    s->ends[count] = (int32_t)used;
    s->symbol_count = (int32_t)count;
    return 1;
memory:
    PyErr_NoMemory();
    return 0;
}

/* (op, column, number, discards, skip, children, symbols); skip is -1 for none */
static int read_step(PyObject *description, program_t *program, step_t *s) {
    int op, column, discards;
    long long number;
    Py_ssize_t skip;
    PyObject *children, *symbols;
    if (!PyTuple_Check(description)) {
        PyErr_SetString(PyExc_TypeError, "a step is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(description, "iiLpnO!O!", &op, &column, &number, &discards, &skip, &PyTuple_Type,
                          &children, &PyTuple_Type, &symbols))
        return 0;
    Py_ssize_t count = PyTuple_Size(children);
    if (op < 0 || op >= OP_COUNT || count > INT32_MAX / 16 || skip >= program->count) goto wrong;
    s->op = (op_t)op;
    s->column = column;
    s->number = number;
    s->discards = discards;
    if (skip >= 0) s->skip = &program->steps[skip];
    if (count && !(s->children = calloc((size_t)count, sizeof(step_t *)))) {
        PyErr_NoMemory();
        return 0;
    }
    s->count = (int32_t)count;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t child = PyLong_AsSsize_t(PyTuple_GetItem(children, i));
        if (child < 0 || child >= program->count) goto wrong;
        s->children[i] = &program->steps[child];
    }
    return read_symbols(symbols, s);
wrong:
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a program that no schema makes");
    return 0;
}

static void program_free(program_t *program) {
    for (Py_ssize_t i = 0; i < program->count && program->steps; i++) {
        free(program->steps[i].children);
        free(program->steps[i].symbols);
        free(program->steps[i].ends);
    }
    free(program->steps);
    free(program);
}

static int program_read(PyObject *list, program_t *program, const layout_t *layout) {
    program->count = PyList_Size(list);
    if (program->count < 1 || !(program->steps = calloc((size_t)program->count, sizeof(step_t)))) {
        if (!PyErr_Occurred()) PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t i = 0; i < program->count; i++)
        if (!read_step(PyList_GetItem(list, i), program, &program->steps[i])) return 0;
    for (Py_ssize_t i = 0; i < program->count; i++)
        if (!step_fits(&program->steps[i], layout)) {
            PyErr_SetString(PyExc_ValueError, "a program that no schema makes");
            return 0;
        }
    return 1;
}

#endif
