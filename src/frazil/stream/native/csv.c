/* frazil.stream._csv: CSV records into Arrow buffers, by the rules of frazil.stream.decode.csv.
 *
 * One pass over each record, straight from the buffers of a BinaryArray into buffers of the columns, without the
 * GIL. Every output is made of no more bytes than the input has, so 32 bit offsets hold for both.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "columns_text.h"

#define PLAN "frazil.stream._csv.plan"

/* What a field of the record is besides the number of a column. */
enum { F_SKIPPED = -1, F_UNKNOWN = -2 };

typedef struct {
    int delimiter, quote; /* quote is -1 where there is none */
    int discard;          /* a value that does not fit is a null, if the column is optional */
    const uint8_t *null;
    int64_t null_length;
    int32_t *fields, count;
    int complete; /* each column has a field */
    uint8_t ends[256]; /* bytes that a field without quotes does not have */
} layout_t;

typedef struct {
    reader_t r;
    bytes_t unquoted;
    const layout_t *layout;
    column_t *root;
} work_t;

typedef struct {
    const uint8_t *text;
    int64_t length;
    int quoted;
} field_t;

/* The rest of a quoted field, p after its first quote: the place after the last one, NULL if there is none. */
static const uint8_t *quoted_field(work_t *w, const uint8_t *p, const uint8_t *end, field_t *f) {
    int quote = w->layout->quote;
    const uint8_t *close = memchr(p, quote, (size_t)(end - p));
    if (!close) return NULL;
    if (end - close < 2 || close[1] != quote) {
        *f = (field_t){p, close - p, 1};
        return close + 1;
    }
    w->unquoted.used = 0;
    if (!bytes_room(&w->unquoted, end - p)) {
        w->r.memory = 1;
        return NULL;
    }
    uint8_t *to = w->unquoted.data;
    for (;;) {
        memcpy(to, p, (size_t)(close - p));
        to += close - p;
        if (end - close < 2 || close[1] != quote) break;
        *to++ = (uint8_t)quote;
        p = close + 2;
        if (!(close = memchr(p, quote, (size_t)(end - p)))) return NULL;
    }
    *f = (field_t){w->unquoted.data, to - w->unquoted.data, 1};
    return close + 1;
}

/* A field: the delimiter after it, or the end; NULL if it is not well-formed. */
static inline const uint8_t *next_field(work_t *w, const uint8_t *p, const uint8_t *end, field_t *f) {
    const layout_t *l = w->layout;
    if (p < end && *p == l->quote) {
        p = quoted_field(w, p + 1, end, f);
        return p && (p == end || *p == l->delimiter) ? p : NULL;
    }
    const uint8_t *first = p;
    while (p < end && !l->ends[*p]) p++;
    *f = (field_t){first, p - first, 0};
    return p == end || *p == l->delimiter ? p : NULL;
}

static inline int is_null(const layout_t *l, const field_t *f) {
    if (f->quoted) return 0;
    return !f->length || (f->length == l->null_length && !memcmp(f->text, l->null, (size_t)f->length));
}

static int put_null(work_t *w, column_t *c) {
    if (c->required) return 0;
    if (column_empty(c, 1)) return 1;
    w->r.memory = 1;
    return 0;
}

static int put_field(work_t *w, column_t *c, const field_t *f) {
    if (!column_room(c)) {
        w->r.memory = 1;
        return 0;
    }
    if (is_null(w->layout, f)) return put_null(w, c);
    /* Text that was put together is not in the batch: nothing behind it may be looked at. */
    const uint8_t *limit = w->r.limit;
    if (f->text == w->unquoted.data) w->r.limit = f->text + f->length;
    int good = text_value(&w->r, c, f->text, f->length);
    w->r.limit = limit;
    return good || (!w->r.memory && w->layout->discard && put_null(w, c));
}

static int fill_missing(work_t *w) {
    for (int32_t i = 0; i < w->root->count; i++) {
        column_t *c = &w->root->children[i];
        if (c->length == w->root->length && !put_null(w, c)) return 0;
    }
    return 1;
}

/* One record without the end of its line. */
static int read_record(work_t *w, const uint8_t *p, const uint8_t *end) {
    if (end > p && end[-1] == '\n') end--;
    if (end > p && end[-1] == '\r') end--;
    if (p == end || utf8_end(p, end) != end) return 0;
    const layout_t *l = w->layout;
    for (int32_t i = 0; i < l->count; i++) {
        field_t f;
        const uint8_t *stop = next_field(w, p, end, &f);
        if (!stop) return 0;
        int32_t place = l->fields[i];
        if (place >= 0 ? !put_field(w, &w->root->children[place], &f) : place == F_UNKNOWN && !is_null(l, &f))
            return 0;
        if ((stop == end) != (i + 1 == l->count)) return 0;
        p = stop + 1;
    }
    if (!l->complete && !fill_missing(w)) return 0;
    w->root->length++;
    return 1;
}

/* 0 when out of memory. */
static int read_records(const input_t *in, work_t *w, rows_t *bad) {
    const uint8_t *data = in->data.buf;
    const int32_t *offsets = (const int32_t *)in->offsets.buf + in->offset;
    w->r.limit = data + in->data.len;
    for (int32_t i = 0; i < w->root->count && in->length; i++)
        if (!column_reserve(&w->root->children[i], in->length)) return 0;
    int good = 1;
    for (Py_ssize_t row = 0; row < in->length && good; row++) {
        if (input_has(in, row) && read_record(w, data + offsets[row], data + offsets[row + 1])) continue;
        good = !w->r.memory && add_row(bad, row);
        if (good) column_rollback(w->root, row + 1 - bad->count);
    }
    free(w->r.scratch.data);
    free(w->unquoted.data);
    return good;
}

static void drop_plan(PyObject *capsule) {
    column_t *root = PyCapsule_GetPointer(capsule, PLAN);
    column_free_plan(root);
    free(root);
}

static PyObject *plan(PyObject *Py_UNUSED(module), PyObject *description) {
    column_t *root = calloc(1, sizeof(column_t));
    if (!root) return PyErr_NoMemory();
    PyObject *capsule = read_columns(description, root) ? PyCapsule_New(root, PLAN, drop_plan) : NULL;
    if (!capsule) {
        column_free_plan(root);
        free(root);
    }
    return capsule;
}

/* What the fields of a record are; each column at most once. */
static int read_fields(PyObject *fields, const column_t *root, layout_t *l) {
    Py_ssize_t count = PyTuple_Size(fields);
    uint8_t *seen = calloc((size_t)root->count + 1, 1);
    l->fields = malloc(((size_t)count + 1) * sizeof(int32_t));
    int good = seen && l->fields;
    if (!good) PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count && good; i++) {
        long place = PyLong_AsLong(PyTuple_GetItem(fields, i));
        good = !PyErr_Occurred() && place >= F_UNKNOWN && place < root->count && !(place >= 0 && seen[place]);
        if (!good && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "fields that no schema makes");
        if (good) {
            l->fields[i] = (int32_t)place;
            if (place >= 0) seen[place] = 1;
        }
    }
    l->count = (int32_t)count;
    l->complete = seen && (!root->count || !memchr(seen, 0, (size_t)root->count));
    free(seen);
    return good;
}

static PyObject *decode_input(state_t *state, const column_t *template, const layout_t *layout, const input_t *in) {
    column_t root;
    rows_t bad = {0};
    work_t work = {.layout = layout, .root = &root};
    int good = column_copy(template, &root);
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        good = read_records(in, &work, &bad);
        Py_END_ALLOW_THREADS
    }
    PyObject *found = good ? columns_and_rows(state, &root, &bad) : PyErr_NoMemory();
    column_free_copy(&root);
    free(bad.rows);
    return found;
}

static PyObject *decode(PyObject *module, PyObject *arguments) {
    PyObject *capsule, *fields, *data, *offsets, *validity;
    input_t in = {0};
    layout_t layout = {0};
    const char *null;
    Py_ssize_t null_length;
    if (!PyArg_ParseTuple(arguments, "OO!iiy#pOOOnn", &capsule, &PyTuple_Type, &fields, &layout.delimiter,
                          &layout.quote, &null, &null_length, &layout.discard, &data, &offsets, &validity, &in.offset,
                          &in.length))
        return NULL;
    const column_t *template = PyCapsule_GetPointer(capsule, PLAN);
    if (!template) return NULL;
    if (layout.delimiter < 0 || layout.delimiter > 127 || layout.quote < -1 || layout.quote > 127) {
        PyErr_SetString(PyExc_ValueError, "delimiter and quote are ASCII");
        return NULL;
    }
    layout.ends[layout.delimiter] = layout.ends['\n'] = layout.ends['\r'] = 1;
    if (layout.quote >= 0) layout.ends[layout.quote] = 1;
    layout.null = (const uint8_t *)null;
    layout.null_length = null_length;
    PyObject *found = NULL;
    if (read_fields(fields, template, &layout) && input_open(&in, data, offsets, validity))
        found = decode_input(PyModule_GetState(module), template, &layout, &in);
    input_close(&in);
    free(layout.fields);
    return found;
}

static PyMethodDef methods[] = {
    {"plan", plan, METH_O, "What a schema asks for, to be used by any number of decodes."},
    {"decode", decode, METH_VARARGS, "The columns of the good records, and the rows of the bad ones."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_csv",
    .m_doc = "CSV records into Arrow buffers.",
    .m_size = sizeof(state_t),
    .m_methods = methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__csv(void) { return PyModuleDef_Init(&definition); }
