/* frazil.stream._protobuf: Protobuf records into Arrow buffers, by the rules of frazil.stream.decode.protobuf.
 *
 * One pass over each record, led by the fields that stand in it, straight from the buffers of a BinaryArray into
 * buffers of the columns, without the GIL. The columns are those of the table; what a record's schema has for them is
 * a program, and there may be several, told apart by the bytes that records begin with.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "protobuf_read.h"

#define COLUMNS "frazil.stream._protobuf.columns"
#define PROGRAM "frazil.stream._protobuf.program"

typedef struct {
    message_t *root;
    int32_t slots, columns;
} program_t;

typedef struct {
    const uint8_t *prefix;
    Py_ssize_t length;
    const program_t *program;
} choice_t;

static void drop_columns(PyObject *capsule) {
    column_t *root = PyCapsule_GetPointer(capsule, COLUMNS);
    column_free_plan(root);
    free(root);
}

static PyObject *columns(PyObject *Py_UNUSED(module), PyObject *description) {
    column_t *root = calloc(1, sizeof(column_t));
    if (!root) return PyErr_NoMemory();
    PyObject *capsule = read_columns(description, root) ? PyCapsule_New(root, COLUMNS, drop_columns) : NULL;
    if (!capsule) {
        column_free_plan(root);
        free(root);
    }
    return capsule;
}

static void drop_program(PyObject *capsule) {
    program_t *program = PyCapsule_GetPointer(capsule, PROGRAM);
    message_free(program->root);
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
    free(program);
}

/* The program keeps the columns that it was checked against. */
static PyObject *program(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *capsule, *description;
    if (!PyArg_ParseTuple(arguments, "OO", &capsule, &description)) return NULL;
    const column_t *root = PyCapsule_GetPointer(capsule, COLUMNS);
    if (!root) return NULL;
    program_t *made = calloc(1, sizeof(program_t));
    if (!made) return PyErr_NoMemory();
    made->root = read_message_plan(description, root->children, root->count, &made->slots);
    PyObject *found = made->root ? PyCapsule_New(made, PROGRAM, drop_program) : NULL;
    if (!found) {
        message_free(made->root);
        free(made);
        return NULL;
    }
    Py_INCREF(capsule);
    PyCapsule_SetContext(found, capsule);
    return found;
}

static const choice_t *choose(const choice_t *choices, Py_ssize_t count, const choice_t *last, span_t record) {
    for (Py_ssize_t i = -1; i < count; i++) {
        const choice_t *one = i < 0 ? last : &choices[i];
        if (record.end - record.p >= one->length && !memcmp(record.p, one->prefix, (size_t)one->length)) return one;
    }
    return NULL;
}

static int read_record(read_t *r, const choice_t *choice, span_t record, column_t *root) {
    r->depth = MAX_MESSAGES + 1;
    r->failure = F_BROKEN;
    r->checked = 0;
    r->record = (span_t){record.p + choice->length, record.end};
    r->root = choice->program->root;
    if (!read_message(r, r->root, r->record, root->children, root->length)) return 0;
    root->length++;
    return 1;
}

/* 0 when out of memory. */
static int read_records(const input_t *in, const choice_t *choices, Py_ssize_t count, read_t *r, column_t *root,
                        rows_t *bad) {
    const uint8_t *data = in->data.buf;
    const int32_t *offsets = (const int32_t *)in->offsets.buf + in->offset;
    const choice_t *choice = choices;
    r->text.limit = data + in->data.len;
    for (int32_t i = 0; i < root->count && in->length; i++)
        if (!column_reserve(&root->children[i], in->length)) return 0;
    for (Py_ssize_t row = 0; row < in->length; row++) {
        span_t record = {data + offsets[row], data + offsets[row + 1]};
        const choice_t *found = input_has(in, row) && count ? choose(choices, count, choice, record) : NULL;
        if (found) {
            choice = found;
            if (read_record(r, choice, record, root)) continue;
        }
        if (r->text.memory || !add_row(bad, row)) return 0;
        column_rollback(root, row + 1 - bad->count);
    }
    return 1;
}

static void slots_free(slot_t *slots, int32_t count) {
    for (int32_t i = 0; i < count && slots; i++) {
        free(slots[i].merged.data);
        free(slots[i].spans);
    }
    free(slots);
}

static PyObject *decode_input(state_t *state, const column_t *template, const choice_t *choices, Py_ssize_t count,
                              int discard, const input_t *in) {
    column_t root;
    rows_t bad = {0};
    int32_t slots = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (choices[i].program->slots > slots) slots = choices[i].program->slots;
    read_t r = {.discard = discard, .slots = calloc((size_t)slots + 1, sizeof(slot_t))};
    int good = column_copy(template, &root) && r.slots;
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        good = read_records(in, choices, count, &r, &root, &bad);
        Py_END_ALLOW_THREADS
    }
    PyObject *found = good ? columns_and_rows(state, &root, &bad) : PyErr_NoMemory();
    column_free_copy(&root);
    slots_free(r.slots, slots);
    free(r.text.scratch.data);
    free(bad.rows);
    return found;
}

/* ((prefix, program), …), programs of these columns. */
static choice_t *read_choices(PyObject *choices, PyObject *capsule) {
    Py_ssize_t count = PyTuple_Size(choices);
    choice_t *found = calloc((size_t)count + 1, sizeof(choice_t));
    if (!found) return (choice_t *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PyTuple_GetItem(choices, i), *made;
        const char *prefix;
        if (PyTuple_Check(pair) && PyArg_ParseTuple(pair, "y#O", &prefix, &found[i].length, &made)) {
            found[i].prefix = (const uint8_t *)prefix;
            found[i].program = PyCapsule_GetPointer(made, PROGRAM);
            if (found[i].program && PyCapsule_GetContext(made) == capsule) continue;
        }
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a program of other columns");
        free(found);
        return NULL;
    }
    return found;
}

static PyObject *decode(PyObject *module, PyObject *arguments) {
    PyObject *capsule, *choices, *data, *offsets, *validity;
    input_t in = {0};
    int discard;
    if (!PyArg_ParseTuple(arguments, "OO!pOOOnn", &capsule, &PyTuple_Type, &choices, &discard, &data, &offsets,
                          &validity, &in.offset, &in.length))
        return NULL;
    const column_t *template = PyCapsule_GetPointer(capsule, COLUMNS);
    choice_t *chosen = template ? read_choices(choices, capsule) : NULL;
    if (!chosen) return NULL;
    PyObject *found = NULL;
    if (input_open(&in, data, offsets, validity))
        found = decode_input(PyModule_GetState(module), template, chosen, PyTuple_Size(choices), discard, &in);
    input_close(&in);
    free(chosen);
    return found;
}

static PyMethodDef methods[] = {
    {"columns", columns, METH_O, "The columns of a table, for any number of programs and decodes."},
    {"program", program, METH_VARARGS, "What a message has for the columns."},
    {"decode", decode, METH_VARARGS, "The columns of the good records, and the rows of the bad ones."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_protobuf",
    .m_doc = "Protobuf records into Arrow buffers.",
    .m_size = sizeof(state_t),
    .m_methods = methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__protobuf(void) { return PyModuleDef_Init(&definition); }
