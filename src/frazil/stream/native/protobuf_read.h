/* A message into the columns of a struct. */
#ifndef FRAZIL_PROTOBUF_READ_H
#define FRAZIL_PROTOBUF_READ_H

#include "protobuf_value.h"

static const uint8_t nothing[16] = {0};

/* `children` have `at` values each, and one more when it is done. */
static int read_message(read_t *r, const message_t *m, span_t span, column_t *children, int64_t at);

/* The record as a whole is looked at before something of it is left out: it may be broken behind that. */
static int is_well_formed(read_t *r) {
    if (r->checked) return 1;
    int depth = r->depth;
    r->depth = MAX_MESSAGES + 1;
    r->checked = check_message(r, r->root, r->record.p, r->record.end);
    r->depth = depth;
    return r->checked;
}

/* May what failed be left out here? */
static int leaves_out(read_t *r, const column_t *c) {
    if (r->text.memory || r->failure != F_MISFIT || !r->discard || c->required) return 0;
    r->failure = F_BROKEN;
    return is_well_formed(r);
}

/* After a failure: a null in its place, if that is the contract. */
static int give_up(read_t *r, column_t *c, int64_t at, int depth) {
    if (!leaves_out(r, c)) return 0;
    r->depth = depth;
    column_rollback(c, at);
    return column_empty(c, 1) || no_memory(r);
}

static int put_none(read_t *r, column_t *c) {
    if (c->required) return lacks(r);
    return column_empty(c, 1) || no_memory(r);
}

/* A value that is a message on the wire. */
static int put_span(read_t *r, const entry_t *e, column_t *c, span_t span) {
    raw_t raw = {.span = {nothing, nothing}};
    if (e->wrapper) return read_pair(r, span, e->source, &raw, NULL) && put_raw(r, c, e, &raw);
    if (e->source != S_MESSAGE) return put_time(r, c, e->source, span);
    if (!read_message(r, e->inner, span, c->children, c->length)) return 0;
    c->length++;
    return 1;
}

static inline int put_one(read_t *r, const entry_t *e, column_t *c, const raw_t *raw) {
    if (!column_room(c)) return no_memory(r);
    int64_t at = c->length;
    int depth = r->depth;
    int good = e->wrapper || is_message(e->source) ? put_span(r, e, c, raw->span) : put_raw(r, c, e, raw);
    return good || give_up(r, c, at, depth);
}

/* No value on the wire. Text that cannot be empty in its column has none. */
static int put_absent(read_t *r, const entry_t *e, column_t *c) {
    raw_t raw = {.span = {nothing, nothing}};
    if (e->presence == P_REQUIRED) return lacks(r);
    int empty = e->source != S_STRING && e->source != S_BYTES ? 1 : c->kind == K_STRING || c->kind == K_BINARY;
    return e->presence == P_IMPLICIT && (empty || e->wrapper) ? put_one(r, e, c, &raw) : put_none(r, c);
}

/* Each part of a message has to be well-formed by itself, also one that is cleared. */
static int is_sound(read_t *r, const entry_t *e, const slot_t *slot) {
    if (!slot->has || slot->raw.span.p == slot->merged.data || !(e->wrapper || is_message(e->source))) return 1;
    return check_span(r, e, slot->raw.span, W_BYTES);
}

/* More of a message that may have been there before: their bytes together are their union. */
static int slot_add(read_t *r, const entry_t *e, slot_t *slot, span_t span) {
    if (!slot->has) {
        slot->has = 1;
        slot->raw.span = span;
        return 1;
    }
    int64_t before = slot->raw.span.end - slot->raw.span.p, more = span.end - span.p;
    if (!is_sound(r, e, slot) || !check_span(r, e, span, W_BYTES)) return 0;
    if (slot->raw.span.p != slot->merged.data) {
        slot->merged.used = 0;
        if (!bytes_room(&slot->merged, before)) return no_memory(r);
        memcpy(slot->merged.data, slot->raw.span.p, (size_t)before);
    }
    slot->merged.used = before;
    if (!bytes_room(&slot->merged, more)) return no_memory(r);
    memcpy(slot->merged.data + before, span.p, (size_t)more);
    slot->merged.used = before + more;
    slot->raw.span = (span_t){slot->merged.data, slot->merged.data + slot->merged.used};
    return 1;
}

static int slot_list(read_t *r, slot_t *slot, span_t span) {
    if (slot->count == slot->room) {
        int64_t room = slot->room ? slot->room * 2 : 16;
        span_t *grown = realloc(slot->spans, (size_t)room * sizeof(span_t));
        if (!grown) return no_memory(r);
        slot->spans = grown;
        slot->room = room;
    }
    slot->spans[slot->count++] = span;
    return 1;
}

/* The value that counts. */
static int put_slot(read_t *r, const entry_t *e, column_t *c, slot_t *slot) {
    const uint8_t *limit = r->text.limit;
    int text = e->source == S_STRING || e->source == S_BYTES;
    if (e->presence == P_IMPLICIT && text && !e->wrapper && slot->raw.span.p == slot->raw.span.end)
        return put_absent(r, e, c);
    /* What was put together is not in the batch: nothing behind it may be looked at. */
    if (slot->raw.span.p == slot->merged.data) r->text.limit = slot->raw.span.end;
    int good = put_one(r, e, c, &slot->raw);
    r->text.limit = limit;
    return good;
}

/* Why a list has no value counts when its turn comes: what stands before it may be left out together with it. */
static int put_element(read_t *r, const entry_t *e, column_t *list, const raw_t *raw) {
    slot_t *slot = &r->slots[e->slot];
    int depth = r->depth;
    if (slot->failed || put_one(r, e, &list->children[0], raw)) return 1;
    if (r->text.memory || r->failure == F_BROKEN) return 0;
    slot->failed = r->failure;
    r->failure = F_BROKEN;
    r->depth = depth;
    column_rollback(list, list->length);
    return 1;
}

static const uint8_t *read_elements(read_t *r, const entry_t *e, column_t *list, const uint8_t *p, const uint8_t *end,
                                    int wire) {
    raw_t raw = {0};
    if (!column_room(list)) return no_memory(r), NULL;
    if (!is_packed(e, wire)) {
        p = read_raw(p, end, wire, &raw);
        return p && put_element(r, e, list, &raw) ? p : NULL;
    }
    span_t span;
    if (!(p = read_span(p, end, &span))) return NULL;
    for (const uint8_t *q = span.p; q < span.end;) {
        q = read_raw(q, span.end, e->wire, &raw);
        if (!q || !put_element(r, e, list, &raw)) return NULL;
    }
    return p;
}

typedef struct {
    int64_t number, order;
    span_t text;
} map_key_t;

static int compare_map_keys(const void *a, const void *b) {
    const map_key_t *one = a, *other = b;
    if (one->number != other->number) return one->number < other->number ? -1 : 1;
    int64_t size = one->text.end - one->text.p, others = other->text.end - other->text.p;
    int found = memcmp(one->text.p, other->text.p, (size_t)(size < others ? size : others));
    if (found || size != others) return found ? found : size < others ? -1 : 1;
    return one->order < other->order ? -1 : 1;
}

/* Of entries with the same key only the last one stays; the others have to be well-formed. */
static int drop_repeated(read_t *r, const entry_t *e, slot_t *slot) {
    const entry_t *key = &e->inner->entries[0];
    map_key_t *keys = malloc((size_t)slot->count * sizeof(map_key_t));
    if (!keys) return no_memory(r);
    int good = 1, depth = r->depth;
    for (int64_t i = 0; i < slot->count && good; i++) {
        raw_t raw = {.span = {nothing, nothing}};
        good = read_pair(r, slot->spans[i], key->source, &raw, NULL);
        keys[i] = (map_key_t){integer_of(key->source, raw.bits), i, raw.span};
        r->depth = depth;
    }
    if (good) qsort(keys, (size_t)slot->count, sizeof(map_key_t), compare_map_keys);
    for (int64_t i = 0; i + 1 < slot->count && good; i++) {
        map_key_t next = keys[i + 1];
        next.order = keys[i].order;
        span_t *span = &slot->spans[keys[i].order];
        if (keys[i].number != next.number || next.text.end - next.text.p != keys[i].text.end - keys[i].text.p ||
            memcmp(next.text.p, keys[i].text.p, (size_t)(next.text.end - next.text.p)))
            continue;
        good = check_message(r, e->inner, span->p, span->end);
        r->depth = depth;
        span->p = NULL;
    }
    free(keys);
    return good;
}

static int put_map(read_t *r, const entry_t *e, column_t *map, slot_t *slot) {
    if (!column_room(map)) return no_memory(r);
    if (slot->count > 1 && !drop_repeated(r, e, slot)) return 0;
    int64_t at = map->length;
    int depth = r->depth;
    column_t *keys = &map->children[0];
    for (int64_t i = 0; i < slot->count; i++) {
        if (!slot->spans[i].p) continue;
        if (!read_message(r, e->inner, slot->spans[i], map->children, keys->length)) return give_up(r, map, at, depth);
    }
    map->offsets[++map->length] = (int32_t)keys->length;
    return 1;
}

/* Another member of the oneof was set: what came before it is gone. */
static int clear_others(read_t *r, const message_t *m, const entry_t *e, column_t *children, int64_t at) {
    for (int32_t i = 0; i < m->count; i++) {
        const entry_t *other = &m->entries[i];
        if (other->oneof != e->oneof || other == e || other->use != U_COLUMN) continue;
        if (other->slot >= 0) {
            if (!is_sound(r, other, &r->slots[other->slot])) return 0;
            r->slots[other->slot].has = 0;
        } else if (children[other->column].length > at)
            column_rollback(&children[other->column], at);
    }
    return 1;
}

static const uint8_t *read_single(read_t *r, const entry_t *e, column_t *c, int64_t at, const uint8_t *p,
                                  const uint8_t *end) {
    raw_t raw = {0};
    if (!(p = read_raw(p, end, e->wire, &raw))) return NULL;
    if (e->slot < 0) {
        if (c->length > at) column_rollback(c, at);
        return put_one(r, e, c, &raw) ? p : NULL;
    }
    slot_t *slot = &r->slots[e->slot];
    if (e->wrapper || is_message(e->source)) return slot_add(r, e, slot, raw.span) ? p : NULL;
    if (e->source == S_STRING && utf8_end(raw.span.p, raw.span.end) != raw.span.end) return NULL;
    slot->raw = raw;
    slot->has = 1;
    return p;
}

static const uint8_t *read_field(read_t *r, const message_t *m, const entry_t *e, column_t *children, int64_t at,
                                 span_t rest, int wire) {
    if (e->use == U_UNKNOWN || e->use == U_CONFLICT) {
        r->slots[e->slot].has = 1;
        return skip_field(r, rest.p, rest.end, e->number, wire);
    }
    if (!is_form(e, wire)) return skip_field(r, rest.p, rest.end, e->number, wire);
    if (e->oneof >= 0 && !clear_others(r, m, e, children, at)) return NULL;
    if (e->use == U_CLEARS) return skip_field(r, rest.p, rest.end, e->number, wire);
    column_t *c = &children[e->column];
    if (e->count == C_ONE) return read_single(r, e, c, at, rest.p, rest.end);
    if (e->count == C_LIST) return read_elements(r, e, c, rest.p, rest.end, wire);
    span_t span;
    const uint8_t *p = read_span(rest.p, rest.end, &span);
    return p && slot_list(r, &r->slots[e->slot], span) ? p : NULL;
}

/* What the column of a field still lacks when the whole message was seen. */
static inline int finish_field(read_t *r, const entry_t *e, column_t *c, int64_t at) {
    if (e->slot < 0) return c->length > at || put_absent(r, e, c);
    slot_t *slot = &r->slots[e->slot];
    if (e->use == U_CONFLICT) {
        if (!slot->has) return e->presence == P_REQUIRED ? lacks(r) : put_none(r, c);
        return no_fit(r) || give_up(r, c, at, r->depth);
    }
    if (e->count == C_MAP) return put_map(r, e, c, slot);
    if (e->count == C_ONE) return slot->has ? put_slot(r, e, c, slot) : put_absent(r, e, c);
    if (slot->failed) {
        r->failure = slot->failed;
        return give_up(r, c, at, r->depth);
    }
    if (!column_room(c)) return no_memory(r);
    c->offsets[++c->length] = (int32_t)c->children[0].length;
    return 1;
}

/* The value of a quick field, the first in its message; NULL: to be looked at by read_field. */
static inline const uint8_t *read_quick(read_t *r, const entry_t *e, column_t *c, const uint8_t *p, const uint8_t *end) {
    uint64_t bits;
    span_t span;
    switch (e->quick) {
    case Q_LONG:
        if (!(p = read_varint(p, end, &bits))) return NULL;
        ((uint64_t *)(void *)c->fixed)[c->length++] = bits;
        return p;
    case Q_INT:
        if (!(p = read_varint(p, end, &bits))) return NULL;
        ((uint32_t *)(void *)c->fixed)[c->length++] = (uint32_t)bits;
        return p;
    case Q_DOUBLE:
        if (end - p < 8) return NULL;
        memcpy(c->fixed + c->length++ * 8, p, 8);
        return p + 8;
    case Q_STRING:
        if (!(p = read_span(p, end, &span)) || utf8_end(span.p, span.end) != span.end) return NULL;
        return put_value(&r->text, c, span.p, span.end - span.p) ? p : NULL;
    default: return NULL;
    }
}

/* All fields up to the end. Producers write fields by number, so that the next one is mostly the next entry. */
static int read_fields(read_t *r, const message_t *m, span_t span, column_t *children, int64_t at) {
    const uint8_t *p = span.p, *end = span.end;
    const entry_t *next = m->entries, *last = m->entries + m->count;
    while (p < end) {
        if (next < last && *p == next->tag && next->quick && next->oneof < 0) {
            column_t *c = &children[next->column];
            if (!column_room(c)) return no_memory(r);
            const uint8_t *done = c->length == at ? read_quick(r, next, c, p + 1, end) : NULL;
            if (done) {
                p = done;
                next++;
                continue;
            }
            if (r->text.memory) return 0;
        }
        uint32_t number;
        int wire;
        if (!(p = read_tag(p, end, &number, &wire))) return 0;
        const entry_t *e = find_entry(m, number);
        p = e ? read_field(r, m, e, children, at, (span_t){p, end}, wire) : skip_field(r, p, end, number, wire);
        if (!p) return 0;
        if (e) next = e + 1;
    }
    return 1;
}

static int read_message(read_t *r, const message_t *m, span_t span, column_t *children, int64_t at) {
    if (--r->depth < 0) return 0;
    for (int32_t i = 0; i < m->slotted_count; i++) {
        slot_t *slot = &r->slots[m->slotted[i]];
        slot->has = slot->failed = 0;
        slot->count = 0;
    }
    if (!read_fields(r, m, span, children, at)) return 0;
    for (int32_t i = 0; i < m->count; i++) {
        const entry_t *e = &m->entries[i];
        if (e->use == U_UNKNOWN && r->slots[e->slot].has) return lacks(r);
        if (e->column >= 0 && !finish_field(r, e, &children[e->column], at)) return 0;
    }
    for (int32_t i = 0; i < m->missing_count; i++)
        if (!put_none(r, &children[m->missing[i]])) return 0;
    r->depth++;
    return 1;
}

#endif
