/* frazil.stream._fetch: records from librdkafka into Arrow's memory layout, without a Python object for each. */
#include <Python.h>

#include <dlfcn.h>
#include <unistd.h>

#include "memory.h"
#include "reader.h"

static bool loaded;

typedef struct {
    PyObject *memory_type;
} State;

typedef struct {
    PyObject_HEAD
    reader_t reader;
    pid_t process; /* threads do not survive a fork: in a child there is nothing to close */
    bool busy;
} Client;

static void shut(Client *self) {
    if (self->process == getpid())
        reader_close(&self->reader);
    free(self->reader.topics);
    free(self->reader.faults);
    memset(&self->reader, 0, sizeof self->reader);
}

static int load(const char *path) {
    if (loaded)
        return 0;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        PyErr_Format(PyExc_ImportError, "%s", dlerror());
        return -1;
    }
    const char *name;
#define RDKAFKA_LOAD(result, function, arguments)                                                                 \
    name = "rd_kafka_" #function;                                                                                 \
    *(void **)&rdkafka.function = dlsym(library, name);                                                           \
    if (rdkafka.function == NULL)                                                                                 \
        goto missing;
    RDKAFKA_FUNCTIONS(RDKAFKA_LOAD)
    loaded = true;
    return 0;
missing:
    PyErr_Format(PyExc_ImportError, "%s has no %s", path, name);
    dlclose(library);
    return -1;
}

static rd_kafka_conf_t *configure(reader_t *self, PyObject *settings) {
    char text[TEXT];
    PyObject *items = PyMapping_Items(settings);
    if (items == NULL)
        return NULL;
    rd_kafka_conf_t *conf = rdkafka.conf_new();
    rdkafka.conf_set_opaque(conf, self);
    rdkafka.conf_set_error_cb(conf, on_error);
    rdkafka.conf_set_log_cb(conf, on_log);
    for (Py_ssize_t i = 0; i < PyList_Size(items); i++) {
        const char *name, *value;
        if (!PyArg_ParseTuple(PyList_GetItem(items, i), "ss", &name, &value))
            goto failed;
        if (rdkafka.conf_set(conf, name, value, text, sizeof text) != RD_KAFKA_CONF_OK) {
            PyErr_SetString(PyExc_ValueError, text);
            goto failed;
        }
    }
    Py_DECREF(items);
    return conf;
failed:
    Py_DECREF(items);
    rdkafka.conf_destroy(conf);
    return NULL;
}

static PyObject *client_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"library", "settings", "keys", "headers", "batch_records", "batch_bytes", NULL};
    const char *library;
    PyObject *settings;
    extras_t with;
    Py_ssize_t records, bytes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOppnn", names, &library, &settings, &with.keys,
                                     &with.headers, &records, &bytes))
        return NULL;
    if (records < 1 || bytes < 1 || bytes > INT32_MAX / 2)
        return PyErr_Format(PyExc_ValueError, "batches are of 1 record and 1 byte at least, 1 GiB at most");
    if (load(library))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Client *self = (Client *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->process = getpid();
    reader_t *reader = &self->reader;
    reader->ready_tail = &reader->ready;
    reader->with = with;
    reader->batch_records = records;
    reader->batch_bytes = (size_t)bytes;
    reader->faults = malloc(FAULTS * sizeof *reader->faults);
    rd_kafka_conf_t *conf = reader->faults ? configure(reader, settings) : NULL;
    if (conf == NULL) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        Py_DECREF(self);
        return NULL;
    }
    char text[TEXT] = "";
    Py_BEGIN_ALLOW_THREADS;
    reader->kafka = rdkafka.new(RD_KAFKA_CONSUMER, conf, text, sizeof text);
    Py_END_ALLOW_THREADS;
    if (reader->kafka == NULL) {
        rdkafka.conf_destroy(conf);
        Py_DECREF(self);
        PyErr_SetString(PyExc_ValueError, text);
        return NULL;
    }
    return (PyObject *)self;
}

static void client_dealloc(PyObject *self) {
    Py_BEGIN_ALLOW_THREADS;
    shut((Client *)self);
    Py_END_ALLOW_THREADS;
    release(self);
}

static bool enter(Client *self) {
    if (self->reader.kafka == NULL || self->busy) {
        PyErr_SetString(PyExc_RuntimeError, self->busy ? "in use by another thread" : "closed");
        return false;
    }
    if (self->process != getpid()) {
        PyErr_SetString(PyExc_RuntimeError, "made before the fork of this process");
        return false;
    }
    return self->busy = true;
}

static int add_part(reader_t *self, PyObject *wanted, int64_t *start) {
    const char *name;
    int partition;
    long long first, end;
    if (!PyTuple_Check(wanted)) {
        PyErr_SetString(PyExc_TypeError, "a slice is (topic, partition, start, end)");
        return -1;
    }
    if (!PyArg_ParseTuple(wanted, "siLL", &name, &partition, &first, &end))
        return -1;
    if (partition < 0 || first < 0) {
        PyErr_SetString(PyExc_ValueError, "a partition or an offset is below zero");
        return -1;
    }
    rd_kafka_topic_t *topic = topic_of(self, name);
    if (topic == NULL) {
        PyErr_Format(PyExc_ValueError, "topic %s: %s", name, rdkafka.err2str(rdkafka.last_error()));
        return -1;
    }
    part_t *part = &self->parts[self->part_count++];
    part->topic = topic;
    part->partition = partition;
    part->end = end;
    part->stopped = true;
    *start = first;
    return 0;
}

static bool start_parts(reader_t *self, const int64_t *starts) {
    bool good = true;
    Py_BEGIN_ALLOW_THREADS;
    self->queue = rdkafka.queue_new(self->kafka);
    for (size_t i = 0; i < self->part_count && good; i++) {
        part_t *part = &self->parts[i];
        good = rdkafka.consume_start_queue(part->topic, part->partition, starts[i], self->queue) == 0;
        part->stopped = !good;
    }
    Py_END_ALLOW_THREADS;
    if (!good)
        PyErr_Format(PyExc_ValueError, "%s", rdkafka.err2str(rdkafka.last_error()));
    return good;
}

static PyObject *client_assign(PyObject *object, PyObject *slices) {
    Client *self = (Client *)object;
    if (!enter(self))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    unassign(&self->reader);
    Py_END_ALLOW_THREADS;
    Py_ssize_t count = PySequence_Size(slices);
    int64_t *starts = count < 0 ? NULL : calloc((size_t)count + 1, sizeof *starts);
    self->reader.parts = count < 0 ? NULL : calloc((size_t)count + 1, sizeof *self->reader.parts);
    bool good = starts && self->reader.parts;
    if (!good && !PyErr_Occurred())
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count && good; i++) {
        PyObject *wanted = PySequence_GetItem(slices, i);
        good = wanted && add_part(&self->reader, wanted, &starts[i]) == 0;
        Py_XDECREF(wanted);
    }
    good = good && start_parts(&self->reader, starts);
    free(starts);
    if (!good) {
        Py_BEGIN_ALLOW_THREADS;
        unassign(&self->reader);
        Py_END_ALLOW_THREADS;
    }
    self->busy = false;
    return good ? Py_NewRef(Py_None) : NULL;
}

/* (data, ends, valid or None, nulls) */
static PyObject *take_strings(PyObject *type, strings_t *column, int64_t count) {
    PyObject *data = memory_new(type, (void **)&column->data, column->size);
    PyObject *ends = memory_new(type, (void **)&column->ends, ((size_t)count + 1) * sizeof *column->ends);
    PyObject *valid = column->nulls ? memory_new(type, (void **)&column->valid, ((size_t)count + 7) / 8)
                                    : Py_NewRef(Py_None);
    if (data && ends && valid)
        return Py_BuildValue("(NNNL)", data, ends, valid, (long long)column->nulls);
    Py_XDECREF(data);
    Py_XDECREF(ends);
    Py_XDECREF(valid);
    return NULL;
}

/* (how many, where those of each record end, names, values); of no headers, the last two are hollow. */
static PyObject *take_headers(PyObject *type, headers_t *headers, int64_t count) {
    PyObject *ends = memory_new(type, (void **)&headers->ends, ((size_t)count + 1) * sizeof *headers->ends);
    PyObject *names = take_strings(type, &headers->names, headers->count);
    PyObject *values = take_strings(type, &headers->values, headers->count);
    if (ends && names && values)
        return Py_BuildValue("(LNNN)", (long long)headers->count, ends, names, values);
    Py_XDECREF(ends);
    Py_XDECREF(names);
    Py_XDECREF(values);
    return NULL;
}

static PyObject *take_batch(reader_t *self, PyObject *type, ready_t *ready) {
    batch_t *batch = &ready->batch;
    size_t size = (size_t)batch->count * sizeof *batch->offsets;
    PyObject *values = take_strings(type, &batch->values, batch->count);
    PyObject *keys = self->with.keys ? take_strings(type, &batch->keys, batch->count) : Py_NewRef(Py_None);
    PyObject *headers =
        self->with.headers ? take_headers(type, &batch->headers, batch->count) : Py_NewRef(Py_None);
    PyObject *offsets = memory_new(type, (void **)&batch->offsets, size);
    PyObject *timestamps = memory_new(type, (void **)&batch->timestamps, size);
    if (values && keys && headers && offsets && timestamps)
        return Py_BuildValue("(siLNNNNN)", rdkafka.topic_name(ready->topic), (int)ready->partition,
                             (long long)batch->count, values, offsets, timestamps, keys,
                             headers);
    Py_XDECREF(values);
    Py_XDECREF(keys);
    Py_XDECREF(headers);
    Py_XDECREF(offsets);
    Py_XDECREF(timestamps);
    return NULL;
}

/* Appends `item`, a new reference or NULL with an error set. */
static bool push(PyObject *list, PyObject *item) {
    bool good = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return good;
}

static bool take_all(reader_t *self, PyObject *type, PyObject *batches, PyObject *ends, PyObject *faults) {
    while (self->ready) {
        ready_t *ready = self->ready;
        bool good = push(batches, take_batch(self, type, ready));
        self->ready = ready->next;
        batch_free(&ready->batch);
        free(ready);
        if (!self->ready)
            self->ready_tail = &self->ready;
        if (!good)
            return false;
    }
    for (size_t i = 0; i < self->part_count && self->ends; i++) {
        part_t *part = &self->parts[i];
        if (part->ended && !part->told) {
            if (!push(ends, Py_BuildValue("(si)", rdkafka.topic_name(part->topic), (int)part->partition)))
                return false;
            part->told = true;
            self->ends--;
        }
    }
    for (size_t i = 0; i < self->fault_count; i++) {
        fault_t *fault = &self->faults[i];
        PyObject *text = PyUnicode_DecodeUTF8(fault->text, (Py_ssize_t)strlen(fault->text), "replace");
        const char *topic = fault->topic[0] ? fault->topic : NULL;
        if (!text || !push(faults, Py_BuildValue("(iNzi)", fault->code, text, topic, (int)fault->partition)))
            return false;
    }
    self->fault_count = 0;
    return true;
}

static PyObject *client_poll(PyObject *object, PyObject *seconds) {
    Client *self = (Client *)object;
    State *state = PyType_GetModuleState(Py_TYPE(object));
    double wait = PyFloat_AsDouble(seconds);
    if (state == NULL || (wait == -1.0 && PyErr_Occurred()) || !enter(self))
        return NULL;
    if (self->reader.queue == NULL) {
        self->busy = false;
        return PyErr_Format(PyExc_RuntimeError, "nothing is assigned");
    }
    int64_t ms = wait < 0 ? 0 : wait > 3600 ? 3600000 : (int64_t)(wait * 1000);
    Py_BEGIN_ALLOW_THREADS;
    serve(&self->reader, ms);
    Py_END_ALLOW_THREADS;
    if (self->reader.failed) {
        self->busy = false;
        return PyErr_NoMemory();
    }
    PyObject *batches = PyList_New(0), *ends = PyList_New(0), *faults = PyList_New(0);
    bool taken = batches && ends && faults && take_all(&self->reader, state->memory_type, batches, ends, faults);
    /* Not before: making objects may collect garbage, and that may call close(). */
    self->busy = false;
    if (taken)
        return Py_BuildValue("(NNN)", batches, ends, faults);
    Py_XDECREF(batches);
    Py_XDECREF(ends);
    Py_XDECREF(faults);
    return NULL;
}

static PyObject *client_unassign(PyObject *object, PyObject *unused) {
    Client *self = (Client *)object;
    (void)unused;
    if (!enter(self))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    unassign(&self->reader);
    Py_END_ALLOW_THREADS;
    self->busy = false;
    Py_RETURN_NONE;
}

static PyObject *client_close(PyObject *object, PyObject *unused) {
    Client *self = (Client *)object;
    (void)unused;
    if (self->reader.kafka == NULL)
        Py_RETURN_NONE;
    if (self->busy)
        return PyErr_Format(PyExc_RuntimeError, "in use by another thread");
    self->busy = true;
    Py_BEGIN_ALLOW_THREADS;
    shut(self);
    Py_END_ALLOW_THREADS;
    self->busy = false;
    Py_RETURN_NONE;
}

static PyMethodDef client_methods[] = {
    {"assign", client_assign, METH_O, "Start reading (topic, partition, start, end) of each."},
    {"poll", client_poll, METH_O, "Batches, ends and faults, waiting up to so many seconds for the first."},
    {"unassign", client_unassign, METH_NOARGS, "Stop reading, and forget what was read ahead."},
    {"close", client_close, METH_NOARGS, "Let go of connections and threads."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot client_slots[] = {
    {Py_tp_new, client_new},
    {Py_tp_dealloc, client_dealloc},
    {Py_tp_methods, client_methods},
    {Py_tp_doc, "A simple consumer of librdkafka; used by one thread at a time."},
    {0, NULL},
};
static PyType_Spec client_spec = {"frazil.stream._fetch.Client", sizeof(Client), 0, Py_TPFLAGS_DEFAULT,
                                  client_slots};

static int execute(PyObject *module) {
    State *state = PyModule_GetState(module);
    state->memory_type = PyType_FromModuleAndSpec(module, &memory_spec, NULL);
    PyObject *client = PyType_FromModuleAndSpec(module, &client_spec, NULL);
    int failed = state->memory_type == NULL || client == NULL ||
                 PyModule_AddType(module, (PyTypeObject *)state->memory_type) ||
                 PyModule_AddType(module, (PyTypeObject *)client);
    Py_XDECREF(client);
    return failed ? -1 : 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
    State *state = PyModule_GetState(module);
    Py_VISIT(state->memory_type);
    return 0;
}

static int clear(PyObject *module) {
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->memory_type);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, execute}, {0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT,
                                    .m_name = "frazil.stream._fetch",
                                    .m_doc = "Records from librdkafka into Arrow's memory layout.",
                                    .m_size = sizeof(State),
                                    .m_slots = module_slots,
                                    .m_traverse = traverse,
                                    .m_clear = clear};

PyMODINIT_FUNC PyInit__fetch(void) { return PyModuleDef_Init(&module); }
