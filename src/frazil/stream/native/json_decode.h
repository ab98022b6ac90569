/* One record into columns, led by the schema. A function gives the place after what it read; NULL: bad. */
#ifndef FRAZIL_JSON_DECODE_H
#define FRAZIL_JSON_DECODE_H

#include "json_value.h"

static const uint8_t *read_value(reader_t *r, const uint8_t *p, column_t *c);

static inline uint32_t hash_bytes(const uint8_t *p, int64_t length) {
    uint32_t found = 2166136261u;
    for (int64_t i = 0; i < length; i++) found = (found ^ p[i]) * 16777619u;
    return found ^ found >> 15;
}

static inline int name_is(const column_t *c, const uint8_t *p, int64_t length) {
    return c->name_length == length && memcmp(c->name, p, (size_t)length) == 0;
}

static int32_t find_child(const column_t *c, const uint8_t *name, int64_t length) {
    if (!c->slots) return -1;
    for (uint32_t at = hash_bytes(name, length);; at++) {
        int32_t child = c->slots[at & c->slots_mask];
        if (child < 0 || name_is(&c->children[child], name, length)) return child;
    }
}

/* Producers keep the order of fields: is this the name, and its quote, as it stands? */
static inline int is_next(const reader_t *r, const uint8_t *p, const column_t *c) {
    if (!c->plain || r->end - p <= c->name_length || r->limit - p < 8) return 0;
    if ((load64(p) ^ c->head) & c->mask) return 0;
    return c->name_length < 8 || memcmp(p + 8, c->name + 8, (size_t)c->name_length - 7) == 0;
}

/* A name, p after its opening quote: the child that it names, -1 for none. */
static inline const uint8_t *read_name(reader_t *r, const uint8_t *p, const column_t *c, int32_t next, int32_t *child) {
    if (next < c->count && is_next(r, p, &c->children[next])) {
        *child = next;
        return p + c->children[next].name_length + 1;
    }
    const uint8_t *name;
    int64_t length;
    p = view_text(r, p, &name, &length);
    if (p) *child = find_child(c, name, length);
    return p;
}

static inline const uint8_t *skip_colon(const uint8_t *p, const uint8_t *end) {
    p = skip_space(p, end);
    return p < end && *p == ':' ? skip_space(p + 1, end) : NULL;
}

static int fill_missing(reader_t *r, column_t *c) {
    for (int32_t i = 0; i < c->count; i++) {
        column_t *child = &c->children[i];
        if (child->length > c->length) continue;
        if (child->required) {
            r->final = 1;
            return 0;
        }
        if (!column_empty(child, 1)) {
            r->memory = 1;
            return 0;
        }
    }
    return 1;
}

/* What read_value could not take, read as nothing: where its column is optional, and if it is JSON at all. */
__attribute__((noinline, cold)) static const uint8_t *leave_out(reader_t *r, const uint8_t *p, column_t *c) {
    if (!r->lax || r->final || r->memory || c->required) return NULL;
    column_rollback(c, c->length);
    if (!(p = skip_value(r, p))) return refuse(r);
    if (column_empty(c, 1)) return p;
    r->memory = 1;
    return NULL;
}

static inline const uint8_t *read_member(reader_t *r, const uint8_t *p, column_t *c) {
    const uint8_t *after = read_value(r, p, c);
    return after ? after : leave_out(r, p, c);
}

static const uint8_t *skip_unknown(reader_t *r, const uint8_t *p) {
    if (r->unknown == UNKNOWN_REFUSED) return refuse(r);
    r->scalar = 0;
    p = skip_value(r, p);
    r->drifted |= r->scalar;
    return p;
}

/* A struct, p after its opening brace. A child is longer than the struct once its field was seen. */
static const uint8_t *read_struct(reader_t *r, const uint8_t *p, column_t *c) {
    const uint8_t *end = r->end;
    int32_t next = 0, seen = 0;
    p = skip_space(p, end);
    if (p < end && *p == '}') goto close;
    for (;;) {
        int32_t child = -1;
        if (p >= end || *p != '"') return NULL;
        if (!(p = read_name(r, p + 1, c, next, &child)) || !(p = skip_colon(p, end))) return NULL;
        if (child < 0) {
            if (!(p = skip_unknown(r, p))) return NULL;
        } else {
            if (c->children[child].length > c->length) return refuse(r);
            if (!(p = read_member(r, p, &c->children[child]))) return NULL;
            next = child + 1;
            seen++;
        }
        p = skip_space(p, end);
        if (p >= end) return NULL;
        if (*p == '}') break;
        if (*p != ',') return NULL;
        p = skip_space(p + 1, end);
    }
close:
    if (seen < c->count && !fill_missing(r, c)) return NULL;
    c->length++;
    return p + 1;
}

static const uint8_t *read_list(reader_t *r, const uint8_t *p, column_t *c) {
    column_t *element = &c->children[0];
    p = skip_space(p, r->end);
    if (p < r->end && *p == ']') goto close;
    for (;;) {
        if (!(p = read_member(r, p, element))) return NULL;
        p = skip_space(p, r->end);
        if (p >= r->end) return NULL;
        if (*p == ']') break;
        if (*p != ',') return NULL;
        p = skip_space(p + 1, r->end);
    }
close:
    c->offsets[++c->length] = (int32_t)element->length;
    return p + 1;
}

/* Are the keys from `first` on all different? */
static int compare_keys(const column_t *keys, int64_t a, int64_t b) {
    int32_t at_a = keys->offsets[a], at_b = keys->offsets[b];
    int32_t size_a = keys->offsets[a + 1] - at_a, size_b = keys->offsets[b + 1] - at_b;
    int found = memcmp(keys->text.data + at_a, keys->text.data + at_b, (size_t)(size_a < size_b ? size_a : size_b));
    return found ? found : (size_a > size_b) - (size_a < size_b);
}

/* By merging, not by hashing: a record with chosen keys must not cost more than others. Two equal keys meet at the
   heads of the runs in which they stand. */
static int keys_differ(reader_t *r, const column_t *keys, int64_t first) {
    int64_t count = keys->length - first;
    if (!keys->text.data) return count < 2; /* all are empty */
    int32_t *space = malloc((size_t)(count + 1) * 2 * sizeof(int32_t));
    if (!space) {
        r->memory = 1;
        return 0;
    }
    int32_t *from = space, *to = space + count;
    int differ = 1;
    for (int64_t key = 0; key < count; key++) from[key] = (int32_t)key;
    for (int64_t width = 1; width < count && differ; width *= 2) {
        for (int64_t start = 0; start < count && differ; start += 2 * width) {
            int64_t left = start, middle = start + width < count ? start + width : count;
            int64_t right = middle, end = start + 2 * width < count ? start + 2 * width : count;
            for (int64_t out = start; out < end && differ; out++) {
                int order = left >= middle ? 1 : right >= end ? -1 : compare_keys(keys, first + from[left], first + from[right]);
                to[out] = order < 0 ? from[left++] : from[right++];
                differ = order != 0;
            }
        }
        int32_t *swap = from;
        from = to;
        to = swap;
    }
    free(space);
    return differ;
}

static const uint8_t *read_map(reader_t *r, const uint8_t *p, column_t *c) {
    column_t *keys = &c->children[0], *values = &c->children[1];
    int64_t first = keys->length;
    p = skip_space(p, r->end);
    if (p < r->end && *p == '}') goto close;
    for (;;) {
        if (p >= r->end || *p != '"' || !(p = read_value(r, p, keys))) return NULL;
        if (!(p = skip_colon(p, r->end)) || !(p = read_member(r, p, values))) return NULL;
        p = skip_space(p, r->end);
        if (p >= r->end) return NULL;
        if (*p == '}') break;
        if (*p != ',') return NULL;
        p = skip_space(p + 1, r->end);
    }
    if (!keys_differ(r, keys, first)) return refuse(r);
close:
    c->offsets[++c->length] = (int32_t)keys->length;
    return p + 1;
}

static const uint8_t *read_nested(reader_t *r, const uint8_t *p, column_t *c) {
    if (*p != (c->kind == K_LIST ? '[' : '{')) return NULL;
    if (++r->depth > MAX_DEPTH) return refuse(r);
    p = c->kind == K_LIST ? read_list(r, p + 1, c) : c->kind == K_MAP ? read_map(r, p + 1, c) : read_struct(r, p + 1, c);
    r->depth--;
    return p;
}

static const uint8_t *read_binary(reader_t *r, const uint8_t *text, int64_t length, column_t *c, uint8_t *to) {
    int64_t size = base64_size(text, length);
    if (size < 0) return NULL;
    if (c->kind == K_FIXED)
        return size == c->width && read_base64(text, size, to) ? text : NULL;
    if (!bytes_room(&c->text, size)) {
        r->memory = 1;
        return NULL;
    }
    if (!read_base64(text, size, c->text.data + c->text.used)) return NULL;
    c->text.used += size;
    c->offsets[c->length + 1] = (int32_t)c->text.used;
    return text;
}

/* A value that is written as a string. */
static const uint8_t *read_quoted(reader_t *r, const uint8_t *p, column_t *c) {
    const uint8_t *text;
    int64_t length, micros;
    if (*p != '"' || !(p = view_text(r, p + 1, &text, &length))) return NULL;
    uint8_t *to = c->width ? c->fixed + c->length * c->width : NULL;
    int good = 0;
    switch (c->kind) {
    case K_DATE: {
        int32_t days;
        if ((good = read_date(text, length, &days))) memcpy(to, &days, 4);
        break;
    }
    case K_TIME:
        if ((good = read_time(text, length, &micros))) memcpy(to, &micros, 8);
        break;
    case K_TIMESTAMP:
    case K_TIMESTAMPTZ:
        if ((good = read_timestamp(text, length, c->kind == K_TIMESTAMPTZ, &micros))) memcpy(to, &micros, 8);
        break;
    case K_UUID: good = read_uuid(text, length, to); break;
    default: good = read_binary(r, text, length, c, to) != NULL;
    }
    if (!good) return NULL;
    c->length++;
    return p;
}

static const uint8_t *read_decimal(reader_t *r, const uint8_t *p, column_t *c) {
    number_t n;
    if (*p == '"') {
        const uint8_t *text;
        int64_t length;
        if (!(p = view_text(r, p + 1, &text, &length))) return NULL;
        if (read_number(text, text + length, &n) != text + length) return NULL;
    } else if (!(p = read_number(p, r->end, &n)))
        return NULL;
    i128 value;
    if (!scaled_number(&n, c->scale, c->precision, &value)) return NULL;
    memcpy(c->fixed + c->length++ * 16, &value, 16);
    return p;
}

static inline const uint8_t *read_string(reader_t *r, const uint8_t *p, column_t *c) {
    if (*p != '"' || !(p = read_text(r, p + 1, &c->text))) return NULL;
    c->offsets[++c->length] = (int32_t)c->text.used;
    return p;
}

/* A value as it stands, whatever it is. */
static const uint8_t *read_raw(reader_t *r, const uint8_t *p, column_t *c) {
    const uint8_t *stop = skip_value(r, p);
    if (!stop || !put_bytes(r, &c->text, p, stop - p)) return NULL;
    c->offsets[++c->length] = (int32_t)c->text.used;
    return stop;
}

static const uint8_t *read_boolean(const uint8_t *p, const uint8_t *end, column_t *c) {
    int truth = *p == 't';
    p = truth ? skip_word(p, end, "true", 4) : skip_word(p, end, "false", 5);
    if (!p) return NULL;
    uint8_t *byte = &c->fixed[c->length / 8], bit = (uint8_t)(1u << (c->length % 8));
    *byte = truth ? *byte | bit : *byte & (uint8_t)~bit;
    c->length++;
    return p;
}

static const uint8_t *read_value(reader_t *r, const uint8_t *p, column_t *c) {
    if (p >= r->end) return NULL;
    if (!column_room(c)) {
        r->memory = 1;
        return NULL;
    }
    if (*p == 'n') {
        if (c->required || !(p = skip_word(p, r->end, "null", 4))) return refuse(r);
        if (column_empty(c, 1)) return p;
        r->memory = 1;
        return NULL;
    }
    int64_t integer;
    double real;
    switch (c->kind) {
    case K_BOOLEAN: return read_boolean(p, r->end, c);
    case K_INT:
        if (!(p = read_long(p, r->end, INT32_MAX, &integer))) return NULL;
        ((int32_t *)(void *)c->fixed)[c->length++] = (int32_t)integer;
        return p;
    case K_LONG:
        if (!(p = read_long(p, r->end, INT64_MAX, &integer))) return NULL;
        break;
    case K_INSTANT:
        if (!(p = read_instant(p, r->end, c->scale, &integer))) return NULL;
        break;
    case K_FLOAT:
        if (!(p = read_double(r, p, &real)) || isinf((float)real)) return NULL;
        ((float *)(void *)c->fixed)[c->length++] = (float)real;
        return p;
    case K_DOUBLE:
        if (!(p = read_double(r, p, &real))) return NULL;
        ((double *)(void *)c->fixed)[c->length++] = real;
        return p;
    case K_DECIMAL: return read_decimal(r, p, c);
    case K_STRING: return read_string(r, p, c);
    case K_RAW: return read_raw(r, p, c);
    case K_SKIP:
        if ((p = skip_value(r, p))) c->length++;
        return p;
    case K_LIST:
    case K_MAP:
    case K_STRUCT: return read_nested(r, p, c);
    default: return read_quoted(r, p, c);
    }
    ((int64_t *)(void *)c->fixed)[c->length++] = integer;
    return p;
}

/* One record: an object with nothing but space around it. */
static int read_record(reader_t *r, const uint8_t *p, column_t *root) {
    r->depth = r->final = r->drifted = 0;
    p = skip_space(p, r->end);
    if (p >= r->end || *p != '{' || !(p = read_value(r, p, root))) return 0;
    return skip_space(p, r->end) == r->end;
}

#endif
