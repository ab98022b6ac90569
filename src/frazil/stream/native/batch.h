/* Records of one slice side by side, as Arrow wants them. Nothing here knows Python or Kafka. */
#ifndef FRAZIL_BATCH_H
#define FRAZIL_BATCH_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A column of byte strings: `ends[i]` is where string i ends in `data`; a clear bit in `valid` is a null. */
typedef struct {
    uint8_t *data;
    size_t size, room;
    int32_t *ends;
    uint8_t *valid;
    int64_t nulls;
} strings_t;

/* The headers of all records behind one another; `ends[i]` is where those of record i end. */
typedef struct {
    int64_t count, room;
    strings_t names, values;
    int32_t *ends;
} headers_t;

typedef struct {
    int64_t count, room;
    strings_t values, keys;
    headers_t headers;
    int64_t *offsets, *timestamps;
} batch_t;

/* What is asked for besides values. */
typedef struct {
    int keys, headers;
} extras_t;

/* A header counts as so many bytes more than it has: empty ones take memory, too. */
enum { BATCH_FIRST_ROOM = 1024, STRINGS_FIRST_ROOM = 1 << 16, HEADER_BYTES = 8 };

static void strings_free(strings_t *column) {
    free(column->data);
    free(column->ends);
    free(column->valid);
    memset(column, 0, sizeof *column);
}

static void batch_free(batch_t *batch) {
    strings_free(&batch->values);
    strings_free(&batch->keys);
    strings_free(&batch->headers.names);
    strings_free(&batch->headers.values);
    free(batch->headers.ends);
    free(batch->offsets);
    free(batch->timestamps);
    memset(batch, 0, sizeof *batch);
}

static size_t batch_bytes(const batch_t *batch) {
    const headers_t *headers = &batch->headers;
    return batch->values.size + batch->keys.size + headers->names.size + headers->values.size +
           (size_t)headers->count * HEADER_BYTES;
}

static int grow(void **memory, size_t size) {
    void *larger = realloc(*memory, size);
    if (larger == NULL)
        return -1;
    *memory = larger;
    return 0;
}

static int strings_rows(strings_t *column, size_t rows) {
    return grow((void **)&column->ends, (rows + 1) * sizeof *column->ends) ||
           grow((void **)&column->valid, (rows + 7) / 8);
}

/* Room for one more record; rooms double, so that copying stays linear. */
static int batch_room(batch_t *batch, extras_t with) {
    if (batch->count < batch->room)
        return 0;
    size_t rows = batch->room ? (size_t)batch->room * 2 : BATCH_FIRST_ROOM;
    if (strings_rows(&batch->values, rows) || (with.keys && strings_rows(&batch->keys, rows)) ||
        (with.headers && grow((void **)&batch->headers.ends, (rows + 1) * sizeof *batch->headers.ends)) ||
        grow((void **)&batch->offsets, rows * sizeof *batch->offsets) ||
        grow((void **)&batch->timestamps, rows * sizeof *batch->timestamps))
        return -1;
    batch->room = (int64_t)rows;
    return 0;
}

/* `data` NULL is a null. The caller keeps `size` in all below 2 GiB. */
static int strings_append(strings_t *column, int64_t row, const void *data, size_t length) {
    if (data == NULL)
        length = 0;
    if (length > (size_t)INT32_MAX - column->size)
        return -1;
    if (column->data == NULL || length > column->room - column->size) {
        size_t room = column->room ? column->room * 2 : STRINGS_FIRST_ROOM;
        while (room - column->size < length)
            room *= 2;
        if (grow((void **)&column->data, room))
            return -1;
        column->room = room;
    }
    if (length)
        memcpy(column->data + column->size, data, length);
    column->size += length;
    if (row == 0)
        column->ends[0] = 0;
    column->ends[row + 1] = (int32_t)column->size;
    uint8_t bit = (uint8_t)(1u << (row & 7));
    if ((row & 7) == 0)
        column->valid[row >> 3] = 0;
    if (data != NULL)
        column->valid[row >> 3] |= bit;
    else
        column->nulls++;
    return 0;
}

/* One header of the record that is being appended. */
static int headers_append(headers_t *headers, const char *name, const void *value, size_t length) {
    if (headers->count == INT32_MAX)
        return -1;
    if (headers->count == headers->room) {
        size_t rows = headers->room ? (size_t)headers->room * 2 : BATCH_FIRST_ROOM;
        if (strings_rows(&headers->names, rows) || strings_rows(&headers->values, rows))
            return -1;
        headers->room = (int64_t)rows;
    }
    if (strings_append(&headers->names, headers->count, name, strlen(name)) ||
        strings_append(&headers->values, headers->count, value, length))
        return -1;
    headers->count++;
    return 0;
}

/* After the headers of a record. */
static void headers_end(headers_t *headers, int64_t row) {
    if (row == 0)
        headers->ends[0] = 0;
    headers->ends[row + 1] = (int32_t)headers->count;
}

#endif
