/* Protocol buffers; see protobuf.h. A field is its number and kind, then its value: a number in
 * groups of seven bits, eight or four bytes, or a length and so many bytes. */
#include "base/protobuf.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie");

enum { VARINT = 0, EIGHT = 1, BYTES = 2, FOUR = 5 };

void smoe_message_put(smoe_message *m, const void *bytes, size_t size) {
    if (m->size + size > m->room) {
        m->room = 2 * m->room + size + 64;
        m->bytes = smoe_alloc_more(m->bytes, m->room, 1);
    }
    if (size) memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

static void put_varint(smoe_message *m, uint64_t x) {
    for (; x >= 128; x >>= 7) smoe_message_put(m, &(uint8_t){(uint8_t)(x | 128)}, 1);
    smoe_message_put(m, &(uint8_t){(uint8_t)x}, 1);
}

static void put_field(smoe_message *m, unsigned field, unsigned kind) {
    put_varint(m, field << 3 | kind);
}

void smoe_message_number(smoe_message *m, unsigned field, uint64_t number) {
    put_field(m, field, VARINT);
    put_varint(m, number);
}

void smoe_message_float(smoe_message *m, unsigned field, float number) {
    put_field(m, field, FOUR);
    smoe_message_put(m, &number, sizeof number);
}

void smoe_message_double(smoe_message *m, unsigned field, double number) {
    put_field(m, field, EIGHT);
    smoe_message_put(m, &number, sizeof number);
}

void smoe_message_bytes(smoe_message *m, unsigned field, const void *bytes, size_t size) {
    put_field(m, field, BYTES);
    put_varint(m, size);
    smoe_message_put(m, bytes, size);
}

void smoe_message_text(smoe_message *m, unsigned field, const char *text) {
    smoe_message_bytes(m, field, text, strlen(text));
}

void smoe_message_inner(smoe_message *m, unsigned field, smoe_message *inner) {
    smoe_message_bytes(m, field, inner->bytes, inner->size);
    free(inner->bytes);
    *inner = (smoe_message){0};
}
