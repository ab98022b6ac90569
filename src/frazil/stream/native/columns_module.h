/* What modules share that turn an array of records into columns: plans, input, output. */
#ifndef FRAZIL_COLUMNS_MODULE_H
#define FRAZIL_COLUMNS_MODULE_H

#include "memory.h"

/* Each module uses what it needs of them. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "json_value.h"
#pragma GCC diagnostic pop

typedef struct {
    PyObject *memory_type;
} state_t;

/* (kind, required, width, precision, scale, children); what is made stays with c also on error. */
static int read_columns(PyObject *description, column_t *c) {
    int kind, required, width, precision, scale;
    PyObject *children;
    if (!PyTuple_Check(description)) {
        PyErr_SetString(PyExc_TypeError, "a plan is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(description, "iiiiiO!", &kind, &required, &width, &precision, &scale, &PyTuple_Type,
                          &children))
        return 0;
    Py_ssize_t count = PyTuple_Size(children);
    int counts = kind == K_STRUCT || (kind == K_LIST && count == 1) || (kind == K_MAP && count == 2);
    if (kind < 0 || kind >= K_COUNT || width < 0 || precision < 0 || precision > 38 || scale < 0 || scale > 38 ||
        (count ? !counts : kind == K_LIST || kind == K_MAP) || (kind == K_INSTANT && scale > 6) ||
        count > INT32_MAX / 4) {
        PyErr_SetString(PyExc_ValueError, "a plan that no schema makes");
        return 0;
    }
    c->kind = (kind_t)kind;
    c->required = required;
    c->width = width;
    c->precision = precision;
    c->scale = scale;
    if (count && !(c->children = calloc((size_t)count, sizeof(column_t)))) {
        PyErr_NoMemory();
        return 0;
    }
    c->count = (int32_t)count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!read_columns(PyTuple_GetItem(children, i), &c->children[i])) return 0;
    return 1;
}

/* Hands *data over to a new object; None for no memory at all. */
static PyObject *own(state_t *state, void **data, size_t size) {
    if (!*data) Py_RETURN_NONE;
    return memory_new(state->memory_type, data, size);
}

static PyObject *own_column(state_t *state, column_t *c) {
    PyObject *children = PyTuple_New(c->count);
    if (!children) return NULL;
    for (int32_t i = 0; i < c->count; i++) {
        PyObject *child = own_column(state, &c->children[i]);
        if (!child || PyTuple_SetItem(children, i, child) < 0) {
            Py_DECREF(children);
            return NULL;
        }
    }
    size_t bitmap = ((size_t)c->length + 7) / 8;
    size_t fixed = c->kind == K_BOOLEAN ? bitmap : (size_t)c->length * (size_t)c->width;
    PyObject *validity = own(state, (void **)&c->validity, bitmap);
    PyObject *values = own(state, (void **)&c->fixed, fixed);
    PyObject *offsets = own(state, (void **)&c->offsets, ((size_t)c->length + 1) * sizeof(int32_t));
    PyObject *text = own(state, (void **)&c->text.data, (size_t)c->text.used);
    PyObject *found = NULL;
    if (validity && values && offsets && text)
        found = Py_BuildValue("(nOOOOO)", (Py_ssize_t)c->length, validity, values, offsets, text, children);
    Py_XDECREF(validity);
    Py_XDECREF(values);
    Py_XDECREF(offsets);
    Py_XDECREF(text);
    Py_DECREF(children);
    return found;
}

/* The buffers of a BinaryArray. */
typedef struct {
    Py_buffer data, offsets, validity;
    int has_validity;
    Py_ssize_t offset, length;
} input_t;

/* The buffers hold what the array says they hold. */
static int check_input(const input_t *in) {
    Py_ssize_t last = in->offset + in->length;
    if (in->offset < 0 || in->length < 0 || last < in->offset || last >= PY_SSIZE_T_MAX / 8) return 0;
    if (in->offsets.len / (Py_ssize_t)sizeof(int32_t) <= last) return 0;
    if (in->has_validity && in->validity.len < (last + 7) / 8) return 0;
    const int32_t *offsets = (const int32_t *)in->offsets.buf + in->offset;
    if (offsets[0] < 0 || offsets[in->length] > in->data.len) return 0;
    for (Py_ssize_t row = 0; row < in->length; row++)
        if (offsets[row] > offsets[row + 1]) return 0;
    return 1;
}

static void input_close(input_t *in) {
    if (in->data.obj) PyBuffer_Release(&in->data);
    if (in->offsets.obj) PyBuffer_Release(&in->offsets);
    if (in->validity.obj) PyBuffer_Release(&in->validity);
}

/* `input_close` also when it fails. */
static int input_open(input_t *in, PyObject *data, PyObject *offsets, PyObject *validity) {
    in->has_validity = validity != Py_None;
    if (PyObject_GetBuffer(data, &in->data, PyBUF_SIMPLE) < 0) return 0;
    if (PyObject_GetBuffer(offsets, &in->offsets, PyBUF_SIMPLE) < 0) return 0;
    if (in->has_validity && PyObject_GetBuffer(validity, &in->validity, PyBUF_SIMPLE) < 0) return 0;
    if (check_input(in)) return 1;
    PyErr_SetString(PyExc_ValueError, "the buffers do not fit the array's offset and length");
    return 0;
}

static inline int input_has(const input_t *in, Py_ssize_t row) {
    Py_ssize_t bit = row + in->offset;
    return !in->has_validity || ((const uint8_t *)in->validity.buf)[bit / 8] >> (bit % 8) & 1;
}

typedef struct {
    int64_t *rows, count, room;
} rows_t;

static int add_row(rows_t *rows, int64_t row) {
    if (rows->count == rows->room) {
        int64_t room = rows->room ? rows->room * 2 : 64;
        int64_t *grown = realloc(rows->rows, (size_t)room * sizeof(int64_t));
        if (!grown) return 0;
        rows->rows = grown;
        rows->room = room;
    }
    rows->rows[rows->count++] = row;
    return 1;
}

static PyObject *row_list(const rows_t *rows) {
    PyObject *list = PyList_New((Py_ssize_t)rows->count);
    for (int64_t i = 0; list && i < rows->count; i++) {
        PyObject *row = PyLong_FromLongLong(rows->rows[i]);
        if (!row || PyList_SetItem(list, (Py_ssize_t)i, row) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

/* (columns, rows) as Python has them. */
static inline PyObject *columns_and_rows(state_t *state, column_t *root, const rows_t *rows) {
    PyObject *columns = own_column(state, root);
    PyObject *list = columns ? row_list(rows) : NULL;
    PyObject *found = list ? Py_BuildValue("(OO)", columns, list) : NULL;
    Py_XDECREF(columns);
    Py_XDECREF(list);
    return found;
}

static int module_start(PyObject *module) {
    state_t *state = PyModule_GetState(module);
    if (!c_locale) c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale) {
        PyErr_SetString(PyExc_ImportError, "there is no C locale");
        return -1;
    }
    state->memory_type = PyType_FromModuleAndSpec(module, &memory_spec, NULL);
    return state->memory_type ? 0 : -1;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
    state_t *state = PyModule_GetState(module);
    if (state) Py_VISIT(state->memory_type);
    return 0;
}

static int module_clear(PyObject *module) {
    state_t *state = PyModule_GetState(module);
    if (state) Py_CLEAR(state->memory_type);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_start}, {0, NULL}};

#endif
