/* frazil.stream._fetch: records from librdkafka into Arrow's memory layout, without a Python object for each.
 *
 * Uses librdkafka's simple consumer: partitions are started at an offset, there is no group, and nothing is
 * stored. Every assignment has a queue of its own, so that nothing read ahead for one shows up in the next. */
#include <Python.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "batch.h"
#include "rdkafka.h"

enum { TEXT = 512, FAULTS = 64 };

static rdkafka_t rdkafka;
static bool loaded;

/* ---- memory that Python holds ---- */

typedef struct {
    PyObject_HEAD
    void *memory;
    Py_ssize_t size;
} Memory;

typedef struct {
    PyObject *memory_type;
} State;

static void release(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc done = (freefunc)PyType_GetSlot(type, Py_tp_free);
    done(self);
    Py_DECREF(type);
}

static void memory_dealloc(PyObject *self) {
    free(((Memory *)self)->memory);
    release(self);
}

static int memory_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    Memory *memory = (Memory *)self;
    return PyBuffer_FillInfo(view, self, memory->memory, memory->size, 1, flags);
}

static PyType_Slot memory_slots[] = {
    {Py_tp_dealloc, memory_dealloc},
    {Py_bf_getbuffer, memory_getbuffer},
    {Py_tp_doc, "Read-only memory, freed with the last view of it."},
    {0, NULL},
};
static PyType_Spec memory_spec = {"frazil.stream._fetch.Memory", sizeof(Memory), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, memory_slots};

/* Takes the memory over, also when it fails. */
static PyObject *memory_new(PyObject *type, void **owned, size_t size) {
    allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
    Memory *self = (Memory *)allocate((PyTypeObject *)type, 0);
    void *memory = *owned;
    *owned = NULL;
    if (self == NULL) {
        free(memory);
        return NULL;
    }
    self->memory = memory;
    self->size = (Py_ssize_t)size;
    return (PyObject *)self;
}

/* ---- the client ---- */

typedef struct {
    rd_kafka_topic_t *topic;
    int32_t partition;
    int64_t end;
    bool ended, told, stopped;
    batch_t batch;
} part_t;

/* A batch that is full, on its way to Python. */
typedef struct ready {
    struct ready *next;
    rd_kafka_topic_t *topic;
    int32_t partition;
    batch_t batch;
} ready_t;

typedef struct {
    int code;
    int32_t partition;
    char topic[256];
    char text[TEXT];
} fault_t;

typedef struct {
    PyObject_HEAD
    rd_kafka_t *kafka;
    rd_kafka_queue_t *queue;
    pid_t process; /* threads do not survive a fork: in a child there is nothing to close */
    bool busy, keys, failed;
    int64_t batch_records;
    size_t batch_bytes, held;
    rd_kafka_topic_t **topics;
    size_t topic_count;
    part_t *parts;
    size_t part_count;
    part_t *last;
    ready_t *ready, **ready_tail;
    size_t ends;
    fault_t *faults;
    size_t fault_count;
} Client;

static void add_fault(Client *self, int code, const char *text, const char *topic, int32_t partition) {
    if (self->fault_count == FAULTS)
        return; /* the same few over and over; what matters comes first */
    fault_t *fault = &self->faults[self->fault_count++];
    fault->code = code;
    fault->partition = partition;
    snprintf(fault->topic, sizeof fault->topic, "%s", topic ? topic : "");
    snprintf(fault->text, sizeof fault->text, "%s", text ? text : "");
}

/* Called by librdkafka inside poll(), in our thread. */
static void on_error(rd_kafka_t *kafka, int code, const char *reason, void *opaque) {
    (void)kafka;
    add_fault(opaque, code, reason, NULL, -1);
}

/* Called in any thread: what matters comes as an error, too. */
static void on_log(const rd_kafka_t *kafka, int level, const char *facility, const char *text) {
    (void)kafka, (void)level, (void)facility, (void)text;
}

static void flush(Client *self, part_t *part) {
    if (part->batch.count == 0)
        return;
    ready_t *ready = calloc(1, sizeof *ready);
    if (ready == NULL) {
        self->failed = true;
        return;
    }
    ready->topic = part->topic;
    ready->partition = part->partition;
    ready->batch = part->batch;
    self->held -= batch_bytes(&part->batch);
    memset(&part->batch, 0, sizeof part->batch);
    *self->ready_tail = ready;
    self->ready_tail = &ready->next;
}

static void flush_largest(Client *self) {
    part_t *largest = self->parts;
    for (size_t i = 1; i < self->part_count; i++)
        if (batch_bytes(&self->parts[i].batch) > batch_bytes(&largest->batch))
            largest = &self->parts[i];
    flush(self, largest);
}

static void end_part(Client *self, part_t *part) {
    flush(self, part);
    part->ended = true;
    self->ends++;
}

static void append(Client *self, part_t *part, const rd_kafka_message_t *message) {
    batch_t *batch = &part->batch;
    size_t size = message->len + (self->keys ? message->key_len : 0);
    if (batch->count && (batch->count >= self->batch_records || batch_bytes(batch) + size > self->batch_bytes))
        flush(self, part);
    int64_t row = batch->count;
    if (self->failed || batch_room(batch, self->keys) ||
        strings_append(&batch->values, row, message->payload, message->len) ||
        (self->keys && strings_append(&batch->keys, row, message->key, message->key_len))) {
        self->failed = true;
        return;
    }
    batch->offsets[row] = message->offset;
    batch->timestamps[row] = rdkafka.message_timestamp(message, NULL);
    batch->count++;
    self->held += size;
    if (self->held > self->batch_bytes)
        flush_largest(self); /* many partitions together hold no more than one would */
}

static part_t *find_part(Client *self, const rd_kafka_message_t *message) {
    part_t *part = self->last;
    if (part && part->topic == message->rkt && part->partition == message->partition)
        return part;
    for (size_t i = 0; i < self->part_count; i++) {
        part = &self->parts[i];
        if (part->partition == message->partition && part->topic == message->rkt)
            return self->last = part;
    }
    return NULL;
}

static void on_message(rd_kafka_message_t *message, void *opaque) {
    Client *self = opaque;
    part_t *part = message->rkt ? find_part(self, message) : NULL;
    if (message->err && message->err != RD_KAFKA_RESP_ERR_PARTITION_EOF) {
        const char *topic = message->rkt ? rdkafka.topic_name(message->rkt) : NULL;
        add_fault(self, message->err, rdkafka.message_errstr(message), topic, message->partition);
    } else if (part == NULL || part->ended || self->failed) {
        return; /* read ahead beyond the end of the slice */
    } else if (message->offset >= part->end) {
        end_part(self, part);
    } else if (!message->err) {
        append(self, part, message);
        if (message->offset + 1 == part->end)
            end_part(self, part);
    }
    if (self->ready || self->ends || self->fault_count || self->failed)
        rdkafka.yield(self->kafka);
}

static void stop_ended(Client *self, bool all) {
    for (size_t i = 0; i < self->part_count; i++) {
        part_t *part = &self->parts[i];
        if ((part->ended || all) && !part->stopped) {
            rdkafka.consume_stop(part->topic, part->partition);
            part->stopped = true;
        }
    }
}

static void unassign(Client *self) {
    stop_ended(self, true);
    for (size_t i = 0; i < self->part_count; i++)
        batch_free(&self->parts[i].batch);
    free(self->parts);
    self->parts = self->last = NULL;
    self->part_count = 0;
    while (self->ready) {
        ready_t *ready = self->ready;
        self->ready = ready->next;
        batch_free(&ready->batch);
        free(ready);
    }
    self->ready_tail = &self->ready;
    self->held = self->ends = self->fault_count = 0;
    self->failed = false;
    if (self->queue)
        rdkafka.queue_destroy(self->queue);
    self->queue = NULL;
}

static void shut(Client *self) {
    if (self->kafka && self->process == getpid()) {
        unassign(self);
        for (size_t i = 0; i < self->topic_count; i++)
            rdkafka.topic_destroy(self->topics[i]);
        rdkafka.destroy_flags(self->kafka, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    }
    free(self->topics);
    self->topics = NULL;
    self->topic_count = 0;
    self->kafka = NULL;
}

/* ---- Python's side ---- */

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

static rd_kafka_conf_t *configure(Client *self, PyObject *settings) {
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
    static char *names[] = {"library", "settings", "keys", "batch_records", "batch_bytes", NULL};
    const char *library;
    PyObject *settings;
    int keys;
    Py_ssize_t records, bytes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOpnn", names, &library, &settings, &keys, &records, &bytes))
        return NULL;
    if (records < 1 || bytes < 1 || bytes > INT32_MAX / 2)
        return PyErr_Format(PyExc_ValueError, "batches are of 1 record and 1 byte at least, 1 GiB at most");
    if (load(library))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Client *self = (Client *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->ready_tail = &self->ready;
    self->process = getpid();
    self->keys = keys;
    self->batch_records = records;
    self->batch_bytes = (size_t)bytes;
    self->faults = malloc(FAULTS * sizeof *self->faults);
    rd_kafka_conf_t *conf = self->faults ? configure(self, settings) : NULL;
    if (conf == NULL) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        Py_DECREF(self);
        return NULL;
    }
    char text[TEXT] = "";
    Py_BEGIN_ALLOW_THREADS;
    self->kafka = rdkafka.new(RD_KAFKA_CONSUMER, conf, text, sizeof text);
    Py_END_ALLOW_THREADS;
    if (self->kafka == NULL) {
        rdkafka.conf_destroy(conf);
        Py_DECREF(self);
        PyErr_SetString(PyExc_ValueError, text);
        return NULL;
    }
    return (PyObject *)self;
}

static void client_dealloc(PyObject *self) {
    Client *client = (Client *)self;
    Py_BEGIN_ALLOW_THREADS;
    shut(client);
    Py_END_ALLOW_THREADS;
    free(client->faults);
    release(self);
}

static bool enter(Client *self) {
    if (self->kafka == NULL || self->busy) {
        PyErr_SetString(PyExc_RuntimeError, self->busy ? "in use by another thread" : "closed");
        return false;
    }
    if (self->process != getpid()) {
        PyErr_SetString(PyExc_RuntimeError, "made before the fork of this process");
        return false;
    }
    return self->busy = true;
}

/* One handle for each topic ever read, kept: messages point to it. */
static rd_kafka_topic_t *topic_of(Client *self, const char *name) {
    for (size_t i = 0; i < self->topic_count; i++)
        if (strcmp(rdkafka.topic_name(self->topics[i]), name) == 0)
            return self->topics[i];
    if (grow((void **)&self->topics, (self->topic_count + 1) * sizeof *self->topics))
        return NULL;
    rd_kafka_topic_t *topic = rdkafka.topic_new(self->kafka, name, NULL);
    if (topic)
        self->topics[self->topic_count++] = topic;
    return topic;
}

static int add_part(Client *self, PyObject *wanted, int64_t *start) {
    const char *name;
    int partition;
    long long first, end;
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

static bool start_parts(Client *self, const int64_t *starts) {
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
    unassign(self);
    Py_END_ALLOW_THREADS;
    Py_ssize_t count = PySequence_Size(slices);
    int64_t *starts = count < 0 ? NULL : calloc((size_t)count + 1, sizeof *starts);
    self->parts = count < 0 ? NULL : calloc((size_t)count + 1, sizeof *self->parts);
    bool good = starts && self->parts;
    if (!good && !PyErr_Occurred())
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count && good; i++) {
        PyObject *wanted = PySequence_GetItem(slices, i);
        good = wanted && add_part(self, wanted, &starts[i]) == 0;
        Py_XDECREF(wanted);
    }
    good = good && start_parts(self, starts);
    free(starts);
    if (!good) {
        Py_BEGIN_ALLOW_THREADS;
        unassign(self);
        Py_END_ALLOW_THREADS;
    }
    self->busy = false;
    return good ? Py_NewRef(Py_None) : NULL;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void serve(Client *self, int64_t ms) {
    int64_t deadline = now_ms() + ms, left = ms;
    do {
        rdkafka.poll(self->kafka, 0);
        int64_t wait = left < 100 ? left : 100; /* errors of the client come by poll(), not by the queue */
        rdkafka.consume_callback_queue(self->queue, (int)wait, on_message, self);
        left = deadline - now_ms();
    } while (left > 0 && !self->ready && !self->ends && !self->fault_count && !self->failed);
    stop_ended(self, false);
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

static PyObject *take_batch(Client *self, PyObject *type, ready_t *ready) {
    batch_t *batch = &ready->batch;
    size_t size = (size_t)batch->count * sizeof *batch->offsets;
    PyObject *values = take_strings(type, &batch->values, batch->count);
    PyObject *keys = self->keys ? take_strings(type, &batch->keys, batch->count) : Py_NewRef(Py_None);
    PyObject *offsets = memory_new(type, (void **)&batch->offsets, size);
    PyObject *timestamps = memory_new(type, (void **)&batch->timestamps, size);
    if (values && keys && offsets && timestamps)
        return Py_BuildValue("(siLNNNN)", rdkafka.topic_name(ready->topic), (int)ready->partition,
                             (long long)batch->count, values, offsets, timestamps, keys);
    Py_XDECREF(values);
    Py_XDECREF(keys);
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

static bool take_all(Client *self, PyObject *type, PyObject *batches, PyObject *ends, PyObject *faults) {
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
    if (self->queue == NULL) {
        self->busy = false;
        return PyErr_Format(PyExc_RuntimeError, "nothing is assigned");
    }
    int64_t ms = wait < 0 ? 0 : wait > 3600 ? 3600000 : (int64_t)(wait * 1000);
    Py_BEGIN_ALLOW_THREADS;
    serve(self, ms);
    Py_END_ALLOW_THREADS;
    self->busy = false;
    if (self->failed)
        return PyErr_NoMemory();
    PyObject *batches = PyList_New(0), *ends = PyList_New(0), *faults = PyList_New(0);
    if (batches && ends && faults && take_all(self, state->memory_type, batches, ends, faults))
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
    unassign(self);
    Py_END_ALLOW_THREADS;
    self->busy = false;
    Py_RETURN_NONE;
}

static PyObject *client_close(PyObject *object, PyObject *unused) {
    Client *self = (Client *)object;
    (void)unused;
    if (self->kafka == NULL)
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

/* ---- the module ---- */

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
