/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bounded cursors over XDR (RFC 4506). A cursor that meets its end, or a value
 * that is not allowed, turns bad and stays so: decoders read a whole message
 * and look at `bad` once. A bad input cursor gives zeros, a bad output cursor
 * drops what is put.
 *
 * Nothing here allocates. Opaque data is given as pointers into the input.
 */
#ifndef PROTO_WIRE_H
#define PROTO_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wire_in {
	const uint8_t *p, *end;
	bool bad;
};

struct wire_out {
	uint8_t *p, *end;
	bool bad;
};

/* Bytes within a message that outlive the cursor but not the message. */
struct wire_blob {
	const uint8_t *data;
	uint32_t len;
};

static inline size_t wire_padded(size_t len)
{
	return (len + 3) & ~(size_t)3;
}

/* ------------------------------------------------------------- decoding */

static inline void wire_in_init(struct wire_in *in, const void *data, size_t len)
{
	in->p = data;
	in->end = in->p + len;
	in->bad = false;
}

static inline size_t wire_left(const struct wire_in *in)
{
	return (size_t)(in->end - in->p);
}

/* len bytes of the input as they are, without padding; NULL when there are fewer. */
static inline const uint8_t *wire_take(struct wire_in *in, size_t len)
{
	const uint8_t *p = in->p;

	if (in->bad || len > wire_left(in)) {
		in->bad = true;
		in->p = in->end;
		return NULL;
	}
	in->p += len;
	return p;
}

/* What wire_set_u32() and wire_set_u64() have put at p. */
static inline uint32_t wire_load_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return be32toh(v);
}

static inline uint64_t wire_load_u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return be64toh(v);
}

static inline uint32_t wire_get_u32(struct wire_in *in)
{
	const uint8_t *p = wire_take(in, 4);

	return p ? wire_load_u32(p) : 0;
}

static inline uint64_t wire_get_u64(struct wire_in *in)
{
	const uint8_t *p = wire_take(in, 8);

	return p ? wire_load_u64(p) : 0;
}

/* Anything but 0 and 1 is a malformed message. */
static inline bool wire_get_bool(struct wire_in *in)
{
	uint32_t v = wire_get_u32(in);

	if (v > 1)
		in->bad = true;
	return v == 1;
}

/* A number of an enumeration without gaps: 0..max. */
static inline uint32_t wire_get_enum(struct wire_in *in, uint32_t max)
{
	uint32_t v = wire_get_u32(in);

	if (v > max) {
		in->bad = true;
		return 0;
	}
	return v;
}

/* opaque<max> and string<max>. The content of the padding is not looked at. */
static inline void wire_get_opaque(struct wire_in *in, uint32_t max, struct wire_blob *out)
{
	uint32_t len = wire_get_u32(in);

	out->len = 0;
	out->data = NULL;
	if (len > max) {
		in->bad = true;
		return;
	}
	out->data = wire_take(in, wire_padded(len));
	if (out->data)
		out->len = len;
}

/* ------------------------------------------------------------- encoding */

static inline void wire_out_init(struct wire_out *out, void *data, size_t size)
{
	out->p = data;
	out->end = out->p + size;
	out->bad = false;
}

static inline size_t wire_room(const struct wire_out *out)
{
	return (size_t)(out->end - out->p);
}

/* Room for len bytes that the caller fills, all of them; NULL when it is full. */
static inline uint8_t *wire_reserve(struct wire_out *out, size_t len)
{
	uint8_t *p = out->p;

	if (out->bad || len > wire_room(out)) {
		out->bad = true;
		return NULL;
	}
	out->p += len;
	return p;
}

static inline void wire_set_u32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, 4);
}

static inline void wire_set_u64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, 8);
}

static inline void wire_put_u32(struct wire_out *out, uint32_t v)
{
	uint8_t *p = wire_reserve(out, 4);

	if (p)
		wire_set_u32(p, v);
}

static inline void wire_put_u64(struct wire_out *out, uint64_t v)
{
	uint8_t *p = wire_reserve(out, 8);

	if (p)
		wire_set_u64(p, v);
}

static inline void wire_put_bool(struct wire_out *out, bool v)
{
	wire_put_u32(out, v);
}

/* opaque[len] */
static inline void wire_put_fixed(struct wire_out *out, const void *data, size_t len)
{
	size_t padded = wire_padded(len);
	uint8_t *p = wire_reserve(out, padded);

	if (!p || !len)
		return;
	memset(p + padded - 4, 0, 4);
	memcpy(p, data, len);
}

/* opaque<> and string<> */
static inline void wire_put_opaque(struct wire_out *out, const void *data, uint32_t len)
{
	wire_put_u32(out, len);
	wire_put_fixed(out, data, len);
}

#endif
