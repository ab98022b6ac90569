/* frazil.stream._json: JSON records into Arrow buffers, by the rules of frazil.stream.decode.json.
 *
 * One pass over each record, led by the schema, straight from the buffers of a BinaryArray into buffers of the
 * columns; no Python object is made for a value and the GIL is not held. Every output is made of fewer bytes or
 * elements than the input has bytes, so 32 bit offsets that hold for the input hold for the output.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "columns_module.h"
#include "json_decode.h"

#define PLAN "frazil.stream._json.plan"

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

/* (name, names of the children), as the columns lie. */
static int read_names(PyObject *description, column_t *c) {
    const char *name;
    Py_ssize_t length;
    PyObject *children;
    if (!PyTuple_Check(description)) {
        PyErr_SetString(PyExc_TypeError, "names are a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(description, "y#O!", &name, &length, &PyTuple_Type, &children)) return 0;
    if (PyTuple_Size(children) != c->count || length > INT32_MAX - 16) {
        PyErr_SetString(PyExc_ValueError, "a plan whose names are not those of its columns");
        return 0;
    }
    if (!set_name(c, name, length)) goto memory;
    for (int32_t i = 0; i < c->count; i++)
        if (!read_names(PyTuple_GetItem(children, i), &c->children[i])) return 0;
    if (c->kind == K_STRUCT && !hash_names(c)) goto memory;
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

static PyObject *plan(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *columns, *names;
    if (!PyArg_ParseTuple(arguments, "OO", &columns, &names)) return NULL;
    column_t *root = calloc(1, sizeof(column_t));
    if (!root) return PyErr_NoMemory();
    PyObject *capsule = NULL;
    if (read_columns(columns, root) && read_names(names, root)) capsule = PyCapsule_New(root, PLAN, drop_plan);
    if (!capsule) {
        column_free_plan(root);
        free(root);
    }
    return capsule;
}

/* All records; 0 when out of memory. `drifted` are good ones. */
static int read_records(const input_t *in, reader_t *r, column_t *root, rows_t *bad, rows_t *drifted) {
    const uint8_t *data = in->data.buf;
    const int32_t *offsets = (const int32_t *)in->offsets.buf + in->offset;
    r->limit = data + in->data.len;
    for (int32_t i = 0; i < root->count && in->length; i++)
        if (!column_reserve(&root->children[i], in->length)) return 0;
    int good = 1;
    for (Py_ssize_t row = 0; row < in->length && good; row++) {
        r->end = data + offsets[row + 1];
        if (input_has(in, row) && read_record(r, data + offsets[row], root)) {
            if (r->drifted && r->unknown == UNKNOWN_NOTED) good = add_row(drifted, row);
            continue;
        }
        good = !r->memory && add_row(bad, row);
        if (good) column_rollback(root, row + 1 - bad->count);
    }
    return good;
}

static PyObject *decode_input(state_t *state, const column_t *template, const input_t *in, reader_t *r) {
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
    PyObject *found = NULL;
    if (input_open(&in, data, offsets, validity)) found = decode_input(PyModule_GetState(module), template, &in, &r);
    input_close(&in);
    return found;
}

static PyMethodDef methods[] = {
    {"plan", plan, METH_VARARGS, "What a schema asks for, to be used by any number of decodes."},
    {"decode", decode, METH_VARARGS, "The columns of the good records, the rows of the bad ones, and those of good ones that have more."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_json",
    .m_doc = "JSON records into Arrow buffers.",
    .m_size = sizeof(state_t),
    .m_methods = methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__json(void) { return PyModuleDef_Init(&definition); }
