/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/format/csum.h"

#include <isa-l/crc.h>
#include <limits.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <sodium.h>
#include <string.h>
#include <xxhash.h>

#include "base/util.h"

static const struct {
	const char *name;
	unsigned bytes;
} types[] = {
	[BTRFS_CSUM_TYPE_CRC32] = {"crc32c", 4},
	[BTRFS_CSUM_TYPE_XXHASH] = {"xxhash64", 8},
	[BTRFS_CSUM_TYPE_SHA256] = {"sha256", 32},
	[BTRFS_CSUM_TYPE_BLAKE2] = {"blake2b", 32},
};

unsigned csum_bytes(uint16_t type)
{
	return type < ARRAY_SIZE(types) ? types[type].bytes : 0;
}

const char *csum_name(uint16_t type)
{
	return type < ARRAY_SIZE(types) ? types[type].name : "unknown";
}

bool csum_is_slow(uint16_t type)
{
	return type == BTRFS_CSUM_TYPE_SHA256 || type == BTRFS_CSUM_TYPE_BLAKE2;
}

/* The CRC register after data, with no inversion before or after. */
static uint32_t crc32c(uint32_t seed, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len) {
		int part = (int)MIN(len, (size_t)INT_MAX);

		/* Lacks a const: it reads only. */
		seed = crc32_iscsi((uint8_t *)(uintptr_t)p, part, seed);
		p += part;
		len -= (size_t)part;
	}
	return seed;
}

/* -- libraries that need a beginning -- */

static pthread_once_t libraries_once = PTHREAD_ONCE_INIT;
static EVP_MD *sha256;
static pthread_key_t ctx_key;
static bool have_ctx_key;

static void free_ctx(void *ctx)
{
	EVP_MD_CTX_free(ctx);
}

static void init_libraries(void)
{
	/* Without it, libsodium works but does not use the CPU's vector units. */
	(void)!sodium_init();
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	have_ctx_key = pthread_key_create(&ctx_key, free_ctx) == 0;
}

/* This thread's, or NULL. */
static EVP_MD_CTX *thread_ctx(void)
{
	EVP_MD_CTX *ctx;

	if (!have_ctx_key)
		return NULL;
	ctx = pthread_getspecific(ctx_key);
	if (ctx)
		return ctx;
	ctx = EVP_MD_CTX_new();
	if (ctx && pthread_setspecific(ctx_key, ctx)) {
		EVP_MD_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

static bool openssl_sha256(const void *data, size_t len, uint8_t *out)
{
	EVP_MD_CTX *ctx = thread_ctx();

	return ctx && sha256 && EVP_DigestInit_ex2(ctx, sha256, NULL) &&
		EVP_DigestUpdate(ctx, data, len) && EVP_DigestFinal_ex(ctx, out, NULL);
}

void csum_compute(uint16_t type, const void *data, size_t len, uint8_t out[BTRFS_CSUM_SIZE])
{
	uint32_t v32;
	uint64_t v64;

	if (csum_is_slow(type))
		pthread_once(&libraries_once, init_libraries);
	switch (type) {
	case BTRFS_CSUM_TYPE_CRC32:
		v32 = htole32(~crc32c(~0u, data, len));
		memcpy(out, &v32, sizeof(v32));
		break;
	case BTRFS_CSUM_TYPE_XXHASH:
		v64 = htole64(XXH64(data, len, 0));
		memcpy(out, &v64, sizeof(v64));
		break;
	case BTRFS_CSUM_TYPE_SHA256:
		/* Sodium's is slower, but needs no memory: a checksum must not fail. */
		if (!openssl_sha256(data, len, out))
			crypto_hash_sha256(out, data, len);
		break;
	case BTRFS_CSUM_TYPE_BLAKE2:
		crypto_generichash_blake2b(out, 32, data, len, NULL, 0);
		break;
	}
}

bool csum_block_ok(uint16_t type, const void *block, size_t len)
{
	uint8_t sum[BTRFS_CSUM_SIZE];
	unsigned bytes = csum_bytes(type);

	if (!bytes || len < BTRFS_CSUM_SIZE)
		return false;
	csum_compute(type, (const uint8_t *)block + BTRFS_CSUM_SIZE, len - BTRFS_CSUM_SIZE, sum);
	return memcmp(sum, block, bytes) == 0;
}

uint64_t name_hash(const char *name, size_t len)
{
	return crc32c(~1u, name, len);
}

uint64_t extref_hash(uint64_t parent, const char *name, size_t len)
{
	return crc32c((uint32_t)parent, name, len);
}
