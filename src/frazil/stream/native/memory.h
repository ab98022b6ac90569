/* Memory that Python holds, by the buffer protocol. */
#ifndef FRAZIL_MEMORY_H
#define FRAZIL_MEMORY_H

#include <Python.h>
#include <stdlib.h>

typedef struct {
    PyObject_HEAD
    void *memory;
    Py_ssize_t size;
} Memory;

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

#endif
