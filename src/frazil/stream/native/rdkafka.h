/* The part of librdkafka's public interface that is used here, bound when the module is told where the library
 * is: nothing of it is needed to build. Its structures and numbers are stable across 1.x and 2.x. */
#ifndef FRAZIL_RDKAFKA_H
#define FRAZIL_RDKAFKA_H

#include <stddef.h>
#include <stdint.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;

typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *internal;
} rd_kafka_message_t;

enum {
    RD_KAFKA_CONSUMER = 1,
    RD_KAFKA_CONF_OK = 0,
    RD_KAFKA_RESP_ERR_PARTITION_EOF = -191,
    RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE = 0x8,
};

typedef void (*consume_cb_t)(rd_kafka_message_t *, void *);
typedef void (*error_cb_t)(rd_kafka_t *, int, const char *, void *);
typedef void (*log_cb_t)(const rd_kafka_t *, int, const char *, const char *);

#define RDKAFKA_FUNCTIONS(F)                                                                                      \
    F(const char *, version_str, (void))                                                                          \
    F(rd_kafka_conf_t *, conf_new, (void))                                                                        \
    F(void, conf_destroy, (rd_kafka_conf_t *))                                                                    \
    F(int, conf_set, (rd_kafka_conf_t *, const char *, const char *, char *, size_t))                             \
    F(void, conf_set_opaque, (rd_kafka_conf_t *, void *))                                                         \
    F(void, conf_set_error_cb, (rd_kafka_conf_t *, error_cb_t))                                                   \
    F(void, conf_set_log_cb, (rd_kafka_conf_t *, log_cb_t))                                                       \
    F(rd_kafka_t *, new, (int, rd_kafka_conf_t *, char *, size_t))                                                \
    F(void, destroy_flags, (rd_kafka_t *, int))                                                                   \
    F(int, poll, (rd_kafka_t *, int))                                                                             \
    F(void, yield, (rd_kafka_t *))                                                                                \
    F(int, last_error, (void))                                                                                    \
    F(const char *, err2str, (int))                                                                               \
    F(rd_kafka_topic_t *, topic_new, (rd_kafka_t *, const char *, rd_kafka_topic_conf_t *))                       \
    F(void, topic_destroy, (rd_kafka_topic_t *))                                                                  \
    F(const char *, topic_name, (const rd_kafka_topic_t *))                                                       \
    F(rd_kafka_queue_t *, queue_new, (rd_kafka_t *))                                                              \
    F(void, queue_destroy, (rd_kafka_queue_t *))                                                                  \
    F(int, consume_start_queue, (rd_kafka_topic_t *, int32_t, int64_t, rd_kafka_queue_t *))                       \
    F(int, consume_stop, (rd_kafka_topic_t *, int32_t))                                                           \
    F(int, consume_callback_queue, (rd_kafka_queue_t *, int, consume_cb_t, void *))                               \
    F(const char *, message_errstr, (const rd_kafka_message_t *))                                                 \
    F(int64_t, message_timestamp, (const rd_kafka_message_t *, int *))                                            \
    F(int, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **))                                  \
    F(int, header_get_all, (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *))

#define RDKAFKA_FIELD(result, name, arguments) result(*name) arguments;
typedef struct {
    RDKAFKA_FUNCTIONS(RDKAFKA_FIELD)
} rdkafka_t;

#endif
