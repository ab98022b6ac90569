/* Slices of partitions, read with librdkafka's simple consumer: partitions are started at an offset, there is no
 * group, and nothing is stored. Every assignment has a queue of its own, so that nothing read ahead for one shows
 * up in the next. Nothing here knows Python; all of it runs without the interpreter's lock. */
#ifndef FRAZIL_READER_H
#define FRAZIL_READER_H

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "batch.h"
#include "rdkafka.h"

enum { TEXT = 512, FAULTS = 64 };

static rdkafka_t rdkafka;

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
    rd_kafka_t *kafka;
    rd_kafka_queue_t *queue;
    extras_t with;
    bool failed;
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
} reader_t;

static void add_fault(reader_t *self, int code, const char *text, const char *topic, int32_t partition) {
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

static void flush(reader_t *self, part_t *part) {
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

static void flush_largest(reader_t *self) {
    part_t *largest = self->parts;
    for (size_t i = 1; i < self->part_count; i++)
        if (batch_bytes(&self->parts[i].batch) > batch_bytes(&largest->batch))
            largest = &self->parts[i];
    flush(self, largest);
}

static void end_part(reader_t *self, part_t *part) {
    flush(self, part);
    part->ended = true;
    self->ends++;
}

/* librdkafka parses headers when they are first asked for; NULL if there are none. */
static rd_kafka_headers_t *headers_of(reader_t *self, const rd_kafka_message_t *message) {
    rd_kafka_headers_t *headers = NULL;
    if (!self->with.headers || rdkafka.message_headers(message, &headers))
        return NULL;
    return headers;
}

static size_t headers_size(const rd_kafka_headers_t *headers) {
    const char *name;
    const void *value;
    size_t size = 0, length;
    for (size_t i = 0; headers && !rdkafka.header_get_all(headers, i, &name, &value, &length); i++)
        size += HEADER_BYTES + strlen(name) + (value ? length : 0);
    return size;
}

static int append_headers(headers_t *column, int64_t row, const rd_kafka_headers_t *headers) {
    const char *name;
    const void *value;
    size_t length;
    for (size_t i = 0; headers && !rdkafka.header_get_all(headers, i, &name, &value, &length); i++)
        if (headers_append(column, name, value, length))
            return -1;
    headers_end(column, row);
    return 0;
}

static void append(reader_t *self, part_t *part, const rd_kafka_message_t *message) {
    batch_t *batch = &part->batch;
    const rd_kafka_headers_t *headers = headers_of(self, message);
    size_t size = message->len + (self->with.keys ? message->key_len : 0) + headers_size(headers);
    if (batch->count && (batch->count >= self->batch_records || batch_bytes(batch) + size > self->batch_bytes))
        flush(self, part);
    int64_t row = batch->count;
    if (self->failed || batch_room(batch, self->with) ||
        strings_append(&batch->values, row, message->payload, message->len) ||
        (self->with.keys && strings_append(&batch->keys, row, message->key, message->key_len)) ||
        (self->with.headers && append_headers(&batch->headers, row, headers))) {
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

static part_t *find_part(reader_t *self, const rd_kafka_message_t *message) {
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
    reader_t *self = opaque;
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

static void stop_ended(reader_t *self, bool all) {
    for (size_t i = 0; i < self->part_count; i++) {
        part_t *part = &self->parts[i];
        if ((part->ended || all) && !part->stopped) {
            rdkafka.consume_stop(part->topic, part->partition);
            part->stopped = true;
        }
    }
}

static void unassign(reader_t *self) {
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

static void reader_close(reader_t *self) {
    if (self->kafka == NULL)
        return;
    unassign(self);
    for (size_t i = 0; i < self->topic_count; i++)
        rdkafka.topic_destroy(self->topics[i]);
    rdkafka.destroy_flags(self->kafka, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    self->kafka = NULL;
}

/* One handle for each topic ever read, kept: messages point to it. */
static rd_kafka_topic_t *topic_of(reader_t *self, const char *name) {
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

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void serve(reader_t *self, int64_t ms) {
    int64_t deadline = now_ms() + ms, left = ms;
    do {
        rdkafka.poll(self->kafka, 0);
        int64_t wait = left < 100 ? left : 100; /* errors of the client come by poll(), not by the queue */
        rdkafka.consume_callback_queue(self->queue, (int)wait, on_message, self);
        left = deadline - now_ms();
    } while (left > 0 && !self->ready && !self->ends && !self->fault_count && !self->failed);
    if (!self->ready)
        for (size_t i = 0; i < self->part_count; i++)
            flush(self, &self->parts[i]); /* little by little, but the caller sees that it goes on */
    stop_ended(self, false);
}

#endif
