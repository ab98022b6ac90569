/* frazil.stream._json: JSON records into Arrow buffers, by the rules of frazil.stream.decode.json.
 *
 * One pass over each record, led by the schema, straight from the buffers of a BinaryArray into buffers of the
 * columns; no Python object is made for a value and the GIL is not held. Every output is made of fewer bytes or
 * elements than the input has bytes, so 32 bit offsets that hold for the input hold for the output.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "json_decode.h"

#define PLAN "frazil.stream._json.plan"

typedef struct {
    PyObject *memory_type;
} state_t;

/* A piece of malloc'ed memory that Python owns. */
typedef struct {
    PyObject_HEAD
    void *data;
    Py_ssize_t size;
} memory_t;

static int memory_get(PyObject *self, Py_buffer *view, int flags) {
    memory_t *memory = (memory_t *)self;
    return PyBuffer_FillInfo(view, self, memory->data, memory->size, 1, flags);
}

static void memory_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    free(((memory_t *)self)->data);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyType_Slot memory_slots[] = {
    {Py_tp_dealloc, memory_dealloc}, {Py_bf_getbuffer, memory_get}, {0, NULL}};
static PyType_Spec memory_spec = {
    "frazil.stream._json.Memory", sizeof(memory_t), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    memory_slots};

/* Hands *data over to a new object; None for no memory at all. */
static PyObject *own(state_t *state, void **data, size_t size) {
    if (!*data) Py_RETURN_NONE;
    allocfunc make = (allocfunc)PyType_GetSlot((PyTypeObject *)state->memory_type, Py_tp_alloc);
    memory_t *memory = (memory_t *)make((PyTypeObject *)state->memory_type, 0);
    if (!memory) return NULL;
    memory->data = *data;
    memory->size = (Py_ssize_t)size;
    *data = NULL;
    return (PyObject *)memory;
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

static int hash_names(column_t *c) {
    uint32_t size = 4;
    while (size < (uint32_t)c->count * 2) size *= 2;
    c->slots = malloc(size * sizeof(int32_t));
    if (!c->slots) return 0;
    memset(c->slots, 0xFF, size * sizeof(int32_t));
    c->slots_mask = size - 1;
    for (int32_t i = 0; i < c->count; i++) {
        uint32_t at = hash_bytes(c->children[i].name, c->children[i].name_length);
        while (c->slots[at & c->slots_mask] >= 0) at++;
        c->slots[at & c->slots_mask] = i;
    }
    return 1;
}

static int set_name(column_t *c, const char *name, Py_ssize_t length) {
    if (!(c->name = calloc((size_t)length + 9, 1))) return 0;
    memcpy(c->name, name, (size_t)length);
    c->name[length] = '"';
    c->name_length = (int32_t)length;
    c->plain = 1;
    for (Py_ssize_t i = 0; i < length; i++)
        if (c->name[i] < 0x20 || c->name[i] == '"' || c->name[i] == '\\') c->plain = 0;
    uint8_t mask[8];
    for (int i = 0; i < 8; i++) mask[i] = i <= length ? 0xFF : 0;
    c->head = load64(c->name);
    c->mask = load64(mask);
    return 1;
}

/* (kind, required, width, precision, scale, name, children); what is made stays with c also on error. */
static int read_plan(PyObject *description, column_t *c) {
    int kind, required, width, precision, scale;
    const char *name;
    Py_ssize_t length;
    PyObject *children;
    if (!PyArg_ParseTuple(description, "iiiiiy#O!", &kind, &required, &width, &precision, &scale, &name, &length,
                          &PyTuple_Type, &children))
        return 0;
    Py_ssize_t count = PyTuple_Size(children);
    int counts = kind == K_STRUCT || (kind == K_LIST && count == 1) || (kind == K_MAP && count == 2);
    if (kind < 0 || kind >= K_COUNT || width < 0 || precision < 0 || precision > 38 || scale < 0 || scale > 38 ||
        (count && !counts) || (kind == K_INSTANT && scale > 6) || length > INT32_MAX - 16 || count > INT32_MAX / 4) {
        PyErr_SetString(PyExc_ValueError, "a plan that no schema makes");
        return 0;
    }
    c->kind = (kind_t)kind;
    c->required = required;
    c->width = width;
    c->precision = precision;
    c->scale = scale;
    if (count && !(c->children = calloc((size_t)count, sizeof(column_t)))) goto memory;
    c->count = (int32_t)count;
    if (!set_name(c, name, length)) goto memory;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!read_plan(PyTuple_GetItem(children, i), &c->children[i])) return 0;
    if (kind == K_STRUCT && !hash_names(c)) goto memory;
    return 1;
memory:
    PyErr_NoMemory();
    return 0;
}

static void drop_plan(PyObject *capsule) {
    column_t *root = PyCapsule_GetPointer(capsule, PLAN);
    column_free_plan(root);
    free(root);
}

static PyObject *plan(PyObject *Py_UNUSED(module), PyObject *description) {
    column_t *root = calloc(1, sizeof(column_t));
    if (!root) return PyErr_NoMemory();
    PyObject *capsule = NULL;
    if (!PyTuple_Check(description))
        PyErr_SetString(PyExc_TypeError, "a plan is a tuple");
    else if (read_plan(description, root))
        capsule = PyCapsule_New(root, PLAN, drop_plan);
    if (!capsule) {
        column_free_plan(root);
        free(root);
    }
    return capsule;
}

typedef struct {
    Py_buffer data, offsets, validity;
    int has_validity;
    Py_ssize_t offset, length;
} input_t;

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

/* All records; 0 when out of memory. `drifted` are good ones. */
static int read_records(const input_t *in, reader_t *r, column_t *root, rows_t *bad, rows_t *drifted) {
    const uint8_t *data = in->data.buf, *validity = in->validity.buf;
    const int32_t *offsets = (const int32_t *)in->offsets.buf + in->offset;
    r->limit = data + in->data.len;
    for (int32_t i = 0; i < root->count && in->length; i++)
        if (!column_reserve(&root->children[i], in->length)) return 0;
    int good = 1;
    for (Py_ssize_t row = 0; row < in->length && good; row++) {
        Py_ssize_t bit = row + in->offset;
        int present = !in->has_validity || validity[bit / 8] >> (bit % 8) & 1;
        r->end = data + offsets[row + 1];
        if (present && read_record(r, data + offsets[row], root)) {
            if (r->drifted && r->unknown == UNKNOWN_NOTED) good = add_row(drifted, row);
            continue;
        }
        good = !r->memory && add_row(bad, row);
        if (good) column_rollback(root, row + 1 - bad->count);
    }
    return good;
}

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

static PyObject *decode_input(state_t *state, const column_t *template, const input_t *in, reader_t *r) {
    if (!check_input(in)) {
        PyErr_SetString(PyExc_ValueError, "the buffers do not fit the array's offset and length");
        return NULL;
    }
    column_t root;
    rows_t bad = {0}, drifted = {0};
    int good = column_copy(template, &root);
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        good = read_records(in, r, &root, &bad, &drifted);
        Py_END_ALLOW_THREADS
    }
    PyObject *columns = good ? own_column(state, &root) : PyErr_NoMemory();
    PyObject *bad_rows = columns ? row_list(&bad) : NULL, *drifted_rows = bad_rows ? row_list(&drifted) : NULL;
    PyObject *found = drifted_rows ? Py_BuildValue("(OOO)", columns, bad_rows, drifted_rows) : NULL;
    Py_XDECREF(columns);
    Py_XDECREF(bad_rows);
    Py_XDECREF(drifted_rows);
    column_free_copy(&root);
    free(bad.rows);
    free(drifted.rows);
    free(r->scratch.data);
    return found;
}

static PyObject *decode(PyObject *module, PyObject *arguments) {
    PyObject *capsule, *data, *offsets, *validity;
    input_t in = {0};
    reader_t r = {0};
    if (!PyArg_ParseTuple(arguments, "OOOOnnip", &capsule, &data, &offsets, &validity, &in.offset, &in.length,
                          &r.unknown, &r.lax))
        return NULL;
    const column_t *template = PyCapsule_GetPointer(capsule, PLAN);
    if (!template) return NULL;
    in.has_validity = validity != Py_None;
    PyObject *found = NULL;
    if (PyObject_GetBuffer(data, &in.data, PyBUF_SIMPLE) == 0) {
        if (PyObject_GetBuffer(offsets, &in.offsets, PyBUF_SIMPLE) == 0) {
            if (!in.has_validity || PyObject_GetBuffer(validity, &in.validity, PyBUF_SIMPLE) == 0) {
                found = decode_input(PyModule_GetState(module), template, &in, &r);
                if (in.has_validity) PyBuffer_Release(&in.validity);
            }
            PyBuffer_Release(&in.offsets);
        }
        PyBuffer_Release(&in.data);
    }
    return found;
}

static PyMethodDef methods[] = {
    {"plan", plan, METH_O, "What a schema asks for, to be used by any number of decodes."},
    {"decode", decode, METH_VARARGS, "The columns of the good records, the rows of the bad ones, and those of good ones that have more."},
    {NULL, NULL, 0, NULL},
};

static int start(PyObject *module) {
    state_t *state = PyModule_GetState(module);
    if (!c_locale) c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale) {
        PyErr_SetString(PyExc_ImportError, "there is no C locale");
        return -1;
    }
    state->memory_type = PyType_FromModuleAndSpec(module, &memory_spec, NULL);
    return state->memory_type ? 0 : -1;
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
    state_t *state = PyModule_GetState(module);
    if (state) Py_VISIT(state->memory_type);
    return 0;
}

static int clear(PyObject *module) {
    state_t *state = PyModule_GetState(module);
    if (state) Py_CLEAR(state->memory_type);
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, start}, {0, NULL}};
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_json",
    .m_doc = "JSON records into Arrow buffers.",
    .m_size = sizeof(state_t),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__json(void) { return PyModuleDef_Init(&definition); }
