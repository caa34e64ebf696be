/*
 * Writing of protocol buffers: a message is a sequence of fields, a field the number that its
 * schema gives it and a value. A message within another one is put together first. Leaves to
 * others: the schemas (tensors/onnx.c, store/tfevents.c).
 */
#pragma once

#include "base/base.h"

/* Starts as {0}; its bytes are freed by the owner. */
typedef struct smoe_message {
    char *bytes;
    size_t size, room;
} smoe_message;

/* Appends bytes as they are, as those of packed numbers. */
void smoe_message_put(smoe_message *message, const void *bytes, size_t size);

void smoe_message_number(smoe_message *message, unsigned field, uint64_t number);
void smoe_message_float(smoe_message *message, unsigned field, float number);
void smoe_message_double(smoe_message *message, unsigned field, double number);
void smoe_message_bytes(smoe_message *message, unsigned field, const void *bytes, size_t size);
void smoe_message_text(smoe_message *message, unsigned field, const char *text);

/* Puts `inner` into the message; it is empty again afterwards. */
void smoe_message_inner(smoe_message *message, unsigned field, smoe_message *inner);
