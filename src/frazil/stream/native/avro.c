/* frazil.stream._avro: Avro records into Arrow buffers, by the rules of frazil.stream.decode.avro.
 *
 * One pass over each record, led by the program of its writer's schema, straight from the buffers of a
 * BinaryArray into buffers of the columns; no Python object is made for a value and the GIL is not held. Records
 * of several schemas fill the same columns, so that their order stays.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "avro_read.h"

#define LAYOUT "frazil.stream._avro.layout"
#define PROGRAM "frazil.stream._avro.program"
#define HEADER_BYTES 5

static void layout_free(layout_t *layout) {
    column_free_children(&layout->root);
    free(layout->all);
    free(layout);
}

static void drop_layout(PyObject *capsule) { layout_free(PyCapsule_GetPointer(capsule, LAYOUT)); }

static PyObject *layout(PyObject *Py_UNUSED(module), PyObject *description) {
    layout_t *made = calloc(1, sizeof(layout_t));
    if (!made) return PyErr_NoMemory();
    PyObject *capsule = NULL;
    if (read_columns(description, &made->root)) {
        made->count = count_columns(&made->root);
        if ((made->all = calloc((size_t)made->count, sizeof(column_t *)))) {
            list_columns(&made->root, made->all);
            capsule = PyCapsule_New(made, LAYOUT, drop_layout);
        } else
            PyErr_NoMemory();
    }
    if (!capsule) layout_free(made);
    return capsule;
}

static void drop_program(PyObject *capsule) { program_free(PyCapsule_GetPointer(capsule, PROGRAM)); }

static PyObject *program(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *of, *steps;
    if (!PyArg_ParseTuple(arguments, "OO!", &of, &PyList_Type, &steps)) return NULL;
    const layout_t *layout = PyCapsule_GetPointer(of, LAYOUT);
    if (!layout) return NULL;
    program_t *made = calloc(1, sizeof(program_t));
    if (!made) return PyErr_NoMemory();
    PyObject *capsule = NULL;
    if (program_read(steps, made, layout)) capsule = PyCapsule_New(made, PROGRAM, drop_program);
    if (!capsule) program_free(made);
    return capsule;
}

/* The id in front of a record, -1 if there is none. */
static inline int64_t header_id(const uint8_t *p, int64_t size) {
    if (size < HEADER_BYTES || p[0]) return -1;
    return (int64_t)p[1] << 24 | (int64_t)p[2] << 16 | (int64_t)p[3] << 8 | p[4];
}

/* Keeps them sorted; 0 when out of memory. */
static int add_number(rows_t *sorted, int64_t number) {
    int64_t low = 0, high = sorted->count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (sorted->rows[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < sorted->count && sorted->rows[low] == number) return 1;
    if (!add_row(sorted, number)) return 0;
    memmove(sorted->rows + low + 1, sorted->rows + low, (size_t)(sorted->count - 1 - low) * sizeof(int64_t));
    sorted->rows[low] = number;
    return 1;
}

static int find_ids(const input_t *in, rows_t *found) {
    const uint8_t *data = in->data.buf;
    const int32_t *offsets = (const int32_t *)in->offsets.buf + in->offset;
    int64_t last = -1;
    for (Py_ssize_t row = 0; row < in->length; row++) {
        if (!input_has(in, row)) continue;
        int64_t id = header_id(data + offsets[row], offsets[row + 1] - offsets[row]);
        if (id < 0 || id == last) continue;
        if (!add_number(found, id)) return 0;
        last = id;
    }
    return 1;
}

static PyObject *ids(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *data, *offsets, *validity, *list = NULL;
    input_t in = {0};
    if (!PyArg_ParseTuple(arguments, "OOOnn", &data, &offsets, &validity, &in.offset, &in.length)) return NULL;
    if (input_open(&in, data, offsets, validity)) {
        rows_t found = {0};
        list = find_ids(&in, &found) ? row_list(&found) : PyErr_NoMemory();
        free(found.rows);
    }
    input_close(&in);
    return list;
}

typedef struct {
    int64_t id;
    const program_t *program;
} choice_t;

typedef struct {
    choice_t *items;
    Py_ssize_t count;
    int header;
} choices_t;

static int compare_choices(const void *a, const void *b) {
    int64_t one = ((const choice_t *)a)->id, other = ((const choice_t *)b)->id;
    return (one > other) - (one < other);
}

/* ((id, program), …) */
static int read_choices(PyObject *tuple, choices_t *choices) {
    choices->count = PyTuple_Size(tuple);
    if (!choices->header && choices->count != 1) {
        PyErr_SetString(PyExc_ValueError, "records without a header have one program");
        return 0;
    }
    if (!(choices->items = calloc((size_t)choices->count + 1, sizeof(choice_t)))) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t i = 0; i < choices->count; i++) {
        long long id;
        PyObject *capsule;
        if (!PyArg_ParseTuple(PyTuple_GetItem(tuple, i), "LO", &id, &capsule)) return 0;
        choices->items[i].id = id;
        if (!(choices->items[i].program = PyCapsule_GetPointer(capsule, PROGRAM))) return 0;
    }
    qsort(choices->items, (size_t)choices->count, sizeof(choice_t), compare_choices);
    return 1;
}

static const program_t *choose(const choices_t *choices, int64_t id) {
    choice_t wanted = {id, NULL};
    const choice_t *found =
        bsearch(&wanted, choices->items, (size_t)choices->count, sizeof(choice_t), compare_choices);
    return found ? found->program : NULL;
}

/* All records; 0 when out of memory. */
static int read_records(const input_t *in, const choices_t *choices, column_t **columns, rows_t *bad) {
    const uint8_t *data = in->data.buf;
    const int32_t *offsets = (const int32_t *)in->offsets.buf + in->offset;
    column_t *root = columns[0];
    avro_t r = {.limit = data + in->data.len, .columns = columns};
    for (int32_t i = 0; i < root->count && in->length; i++)
        if (!column_reserve(&root->children[i], in->length)) return 0;
    const program_t *program = choices->header ? NULL : choices->items[0].program;
    int64_t last = -1;
    for (Py_ssize_t row = 0; row < in->length; row++) {
        const uint8_t *p = data + offsets[row];
        r.end = data + offsets[row + 1];
        int good = input_has(in, row);
        if (good && choices->header) {
            int64_t id = header_id(p, r.end - p);
            if (id != last) program = id < 0 ? NULL : choose(choices, id);
            last = id;
            p += HEADER_BYTES;
        }
        if (good && program && read_record(&r, p, program)) continue;
        if (r.memory || !add_row(bad, row)) return 0;
        column_rollback(root, row + 1 - bad->count);
    }
    return 1;
}

static PyObject *decode_input(state_t *state, const layout_t *layout, const choices_t *choices, const input_t *in) {
    column_t root = {0};
    rows_t bad = {0};
    column_t **columns = calloc((size_t)layout->count, sizeof(column_t *));
    int good = columns && column_copy(&layout->root, &root);
    if (good) {
        list_columns(&root, columns);
        Py_BEGIN_ALLOW_THREADS
        good = read_records(in, choices, columns, &bad);
        Py_END_ALLOW_THREADS
    }
    PyObject *found = good ? columns_and_rows(state, &root, &bad) : PyErr_NoMemory();
    column_free_copy(&root);
    free(columns);
    free(bad.rows);
    return found;
}

static PyObject *decode(PyObject *module, PyObject *arguments) {
    PyObject *of, *programs, *data, *offsets, *validity, *found = NULL;
    choices_t choices = {0};
    input_t in = {0};
    if (!PyArg_ParseTuple(arguments, "OO!pOOOnn", &of, &PyTuple_Type, &programs, &choices.header, &data, &offsets,
                          &validity, &in.offset, &in.length))
        return NULL;
    const layout_t *layout = PyCapsule_GetPointer(of, LAYOUT);
    if (!layout) return NULL;
    if (read_choices(programs, &choices) && input_open(&in, data, offsets, validity))
        found = decode_input(PyModule_GetState(module), layout, &choices, &in);
    input_close(&in);
    free(choices.items);
    return found;
}

static PyMethodDef methods[] = {
    {"layout", layout, METH_O, "The columns of a table, to be filled by any number of programs."},
    {"program", program, METH_VARARGS, "What to do with the records of a writer's schema."},
    {"ids", ids, METH_VARARGS, "The ids in the headers of records, each once."},
    {"decode", decode, METH_VARARGS, "The columns of the good records, and the rows of the bad ones."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_avro",
    .m_doc = "Avro records into Arrow buffers.",
    .m_size = sizeof(state_t),
    .m_methods = methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__avro(void) { return PyModuleDef_Init(&definition); }
