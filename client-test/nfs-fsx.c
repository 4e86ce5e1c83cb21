/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfs-fsx - what fsx does, over NFSv3: writes, reads, truncates and commits one file
 * at random, over several connections in turn, and compares each read, and the
 * whole file now and then, with memory.
 */
#include "nfs-model-conn.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECTIONS    3u
#define MAX_FILE_BYTES (512u << 10)
#define MAX_OP_BYTES   (80u << 10)
#define WHOLE_EVERY    2000u

static struct conn conns[CONNECTIONS];
static struct handle file;
static uint8_t *model, *buf;
static uint64_t size, chance_state = 1, n_ops = 100000, done;
static uint64_t counts[OP_KINDS];

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "nfs-fsx: operation %lu: ", done);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

static uint64_t below(uint64_t n)
{
	chance_state ^= chance_state << 13;
	chance_state ^= chance_state >> 7;
	chance_state ^= chance_state << 17;
	return n ? (chance_state >> 9) % n : 0;
}

static void call(struct op *op, struct result *res)
{
	struct op_handles fh = {.node = file};
	const char *wrong;

	counts[op->kind]++;
	if (!conn_op(&conns[below(CONNECTIONS)], op, &fh, buf, res, &wrong))
		die("connection closed");
	if (wrong || res->status != ST_OK)
		die("%s at %lu, %u bytes: %s", op_names[op->kind], op->off, op->len,
			wrong ? wrong : status_text(res->status));
	if (res->has_attr && op->kind != OP_SETATTR && op->kind != OP_WRITE &&
		res->attr.size != size)
		die("%s: size %lu instead of %lu", op_names[op->kind], res->attr.size, size);
}

static void compare(uint64_t off, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (buf[i] != model[off + i])
			die("byte 0x%02x instead of 0x%02x at 0x%lx (read of %u at 0x%lx, size 0x%lx)",
				buf[i], model[off + i], off + i, len, off, size);
}

static void do_read(uint64_t off, uint32_t len)
{
	struct op op = {.kind = OP_READ, .off = off, .len = len};
	struct result res;

	call(&op, &res);
	if (res.count > (off < size ? size - off : 0) || (off < size && len && !res.count))
		die("read of %u at %lu gave %u bytes of %lu", len, off, res.count, size);
	compare(off, res.count);
}

static void do_write(void)
{
	uint64_t off = below(4) ? below(MAX_FILE_BYTES) : size;
	uint32_t len = 1 + (uint32_t)below(below(3) ? 9000 : MAX_OP_BYTES);
	struct op op = {.kind = OP_WRITE, .off = off, .len = len, .data = below(UINT32_MAX)};
	struct result res;

	if (below(4) == 0)
		op.off = off &= ~4095ull;
	if (off + len > MAX_FILE_BYTES)
		op.len = len = (uint32_t)(MAX_FILE_BYTES - off);
	if (!len)
		return;
	if (len > max_write)
		op.len = max_write;
	op.how = below(16) ? HOW_UNSTABLE : 1 + (uint32_t)below(2);
	call(&op, &res);
	data_fill(op.data, 0, model + off, res.count);
	if (off + res.count > size)
		size = off + res.count;
	if (res.has_attr && res.attr.size != size)
		die("size %lu after WRITE instead of %lu", res.attr.size, size);
}

static void do_truncate(void)
{
	struct op op = {.kind = OP_SETATTR, .set = SET_SIZE, .off = below(MAX_FILE_BYTES)};
	struct result res;

	if (below(3) == 0)
		op.off &= ~4095ull;
	call(&op, &res);
	if (op.off < size)
		memset(model + op.off, 0, size - op.off);
	size = op.off;
	if (res.has_attr && res.attr.size != size)
		die("size %lu after SETATTR instead of %lu", res.attr.size, size);
}

static void whole(void)
{
	for (uint64_t off = 0; off < size; off += max_read)
		do_read(off, size - off < max_read ? (uint32_t)(size - off) : max_read);
}

static void one_op(void)
{
	struct op op = {.kind = OP_COMMIT};
	struct result res;

	done++;
	switch (below(20)) {
	case 0:
		call(&op, &res);
		break;
	case 1:
		op.kind = OP_GETATTR;
		call(&op, &res);
		break;
	case 2:
	case 3:
	case 4:
		do_truncate();
		break;
	case 5:
	case 6:
	case 7:
	case 8:
	case 9:
	case 10:
	case 11:
		do_read(below(MAX_FILE_BYTES), 1 + (uint32_t)below(MAX_OP_BYTES));
		break;
	default:
		do_write();
		break;
	}
	if (done % WHOLE_EVERY == 0)
		whole();
}

static void make_file(const struct handle *root, const char *name)
{
	struct op op = {.kind = OP_CREATE, .how = HOW_UNCHECKED, .set = SET_MODE, .mode = 0644};
	struct op cut = {.kind = OP_SETATTR, .set = SET_SIZE};
	struct op_handles fh = {.dir = *root};
	struct result res;
	const char *wrong;

	snprintf(op.name, sizeof(op.name), "%s", name);
	if (!conn_op(&conns[0], &op, &fh, buf, &res, &wrong) || res.status != ST_OK || !res.has_fh)
		die("cannot create %s: %s", name, status_text(res.status));
	file = res.fh;
	call(&cut, &res);
}

static const char usage[] = "usage: nfs-fsx [--port P] [--mount-port P] [--seed N] [--ops N] "
			    "HOST EXPORT FILE [COPY]\n"
			    "  COPY gets what the file must hold at the end.\n";

static void save(const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(model, 1, size, f) != size || fclose(f))
		die("cannot write %s", path);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"port", required_argument, NULL, 'p'},
		{"mount-port", required_argument, NULL, 'm'},
		{"seed", required_argument, NULL, 's'},
		{"ops", required_argument, NULL, 'n'},
		{NULL, 0, NULL, 0},
	};
	int o, port = 2049, mount_port = 0;
	struct handle root;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (o == 'p') {
			port = atoi(optarg);
		} else if (o == 'm') {
			mount_port = atoi(optarg);
		} else if (o == 's') {
			chance_state = strtoull(optarg, NULL, 0) * 0x9e3779b97f4a7c15u | 1;
		} else if (o == 'n') {
			n_ops = strtoull(optarg, NULL, 0);
		} else {
			fputs(usage, stderr);
			return 2;
		}
	if (argc - optind != 3 && argc - optind != 4) {
		fputs(usage, stderr);
		return 2;
	}
	model = calloc(1, MAX_FILE_BYTES);
	buf = calloc(1, 2u << 20);
	if (!model || !buf)
		die("out of memory");
	conn_mount(argv[optind], mount_port ? mount_port : port, argv[optind + 1], &root);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		conn_open(&conns[i], argv[optind], port,
			(uint32_t)getpid() * 0x10001u + i * 0x1000000u);
	conn_fsinfo(&conns[0], &root);
	make_file(&root, argv[optind + 2]);
	while (done < n_ops)
		one_op();
	whole();
	if (argc - optind == 4)
		save(argv[optind + 3]);
	printf("%lu operations: %lu writes, %lu reads, %lu truncations, %lu commits; %lu bytes\n",
		done, counts[OP_WRITE], counts[OP_READ], counts[OP_SETATTR], counts[OP_COMMIT],
		size);
	return 0;
}
