/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfs-fill - fills an export with files of one size until there is no space, and
 * keeps the server to its word: whatever it answered COMMIT for is read back. What
 * it refused may be there in part, but never in another way.
 */
#include "nfs-model-conn.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct conn conn;
static struct handle root, dir;
static uint8_t *buf, *want;
static unsigned long max_files = 1000000, files, durable;

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("nfs-fill: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

static uint32_t call(struct op *op, const struct op_handles *fh, struct result *res)
{
	const char *wrong;

	if (!conn_op(&conn, op, fh, buf, res, &wrong))
		die("connection closed");
	if (wrong)
		die("%s %s: %s", op_names[op->kind], op->name, wrong);
	return res->status;
}

static void set_name(struct op *op, unsigned long file)
{
	snprintf(op->name, sizeof(op->name), "file-%07lu", file);
}

/* The status that ended it; ST_OK when it is whole and durable. */
static uint32_t write_file(unsigned long file, uint64_t size)
{
	struct op make = {.kind = OP_CREATE, .how = HOW_GUARDED, .set = SET_MODE, .mode = 0644};
	struct op put = {.kind = OP_WRITE}, commit = {.kind = OP_COMMIT};
	struct op_handles fh = {.dir = dir};
	struct result res;
	uint32_t status;

	set_name(&make, file);
	status = call(&make, &fh, &res);
	if (status != ST_OK)
		return status;
	fh.node = res.fh;
	for (uint64_t off = 0; off < size; off += res.count) {
		put.off = off;
		put.data = file * 1000003 + off; /* another pattern for each piece */
		put.len = size - off < max_write ? (uint32_t)(size - off) : max_write;
		status = call(&put, &fh, &res);
		if (status != ST_OK)
			return status;
		if (res.count != put.len)
			return ST_NOSPC;
	}
	return call(&commit, &fh, &res);
}

static bool look_up(unsigned long file, struct handle *fh)
{
	struct op look = {.kind = OP_LOOKUP};
	struct op_handles in = {.dir = dir};
	struct result res;

	set_name(&look, file);
	if (call(&look, &in, &res) != ST_OK)
		return false;
	*fh = res.fh;
	return true;
}

static void check_file(unsigned long file, uint64_t size)
{
	struct op_handles fh = {0};

	if (!look_up(file, &fh.node))
		die("file %lu is not there", file);
	for (uint64_t off = 0; off < size;) {
		uint64_t piece = off - off % max_write;
		struct op get = {.kind = OP_READ, .off = off};
		struct result res;
		uint32_t status;

		get.len =
			(uint32_t)(size - piece < max_write ? size - off : piece + max_write - off);
		if (get.len > max_read)
			get.len = max_read;
		status = call(&get, &fh, &res);
		if (status != ST_OK || !res.count)
			die("file %lu at %lu: %s, %u bytes", file, off, status_text(status),
				res.count);
		data_fill(file * 1000003 + piece, off - piece, want, res.count);
		if (memcmp(want, buf, res.count))
			die("file %lu: other bytes at %lu", file, off);
		off += res.count;
	}
}

static void fill(uint64_t size)
{
	uint32_t status = ST_OK;

	while (files < max_files && status == ST_OK) {
		status = write_file(files++, size);
		durable += status == ST_OK;
	}
	if (status != ST_OK && status != ST_NOSPC && status != ST_DQUOT)
		die("file %lu: %s", files - 1, status_text(status));
	for (unsigned long i = 0; i < durable; i++)
		check_file(i, size);
	printf("%lu files of %lu bytes, then %s\n", durable, size, status_text(status));
}

static void remove_files(void)
{
	unsigned long removed = 0;

	for (;; removed++) {
		struct op gone = {.kind = OP_UNLINK};
		struct op_handles fh = {.dir = dir};
		struct result res;
		uint32_t status;

		set_name(&gone, removed);
		status = call(&gone, &fh, &res);
		if (status == ST_NOENT)
			break;
		if (status != ST_OK)
			die("REMOVE of file %lu: %s", removed, status_text(status));
	}
	printf("%lu files removed\n", removed);
}

static void find_dir(const char *name)
{
	struct op op = {.kind = OP_LOOKUP, .set = SET_MODE, .mode = 0755};
	struct op_handles fh = {.dir = root};
	struct result res;
	uint32_t status;

	snprintf(op.name, sizeof(op.name), "%s", name);
	status = call(&op, &fh, &res);
	if (status == ST_NOENT) {
		op.kind = OP_MKDIR;
		status = call(&op, &fh, &res);
	}
	if (status != ST_OK)
		die("%s: %s", name, status_text(status));
	dir = res.fh;
}

static void remove_dir(const char *name)
{
	struct op op = {.kind = OP_RMDIR};
	struct op_handles fh = {.dir = root};
	struct result res;
	uint32_t status;

	snprintf(op.name, sizeof(op.name), "%s", name);
	status = call(&op, &fh, &res);
	if (status != ST_OK)
		die("RMDIR %s: %s", name, status_text(status));
}

static const char usage[] =
	"usage: nfs-fill [--port P] [--mount-port P] [--files N] HOST EXPORT DIR fill BYTES\n"
	"                                                        HOST EXPORT DIR empty\n"
	"  fill: files of so many bytes until there is no space; what is durable is read back\n"
	"  empty: removes them again, and DIR\n";

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"port", required_argument, NULL, 'p'},
		{"mount-port", required_argument, NULL, 'm'},
		{"files", required_argument, NULL, 'f'},
		{NULL, 0, NULL, 0},
	};
	int o, port = 2049, mount_port = 0, left;
	char **args;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (o == 'p')
			port = atoi(optarg);
		else if (o == 'm')
			mount_port = atoi(optarg);
		else if (o == 'f')
			max_files = strtoul(optarg, NULL, 0);
		else
			argc = 0;
	left = argc - optind;
	args = argv + optind;
	if ((left != 5 || strcmp(args[3], "fill")) && (left != 4 || strcmp(args[3], "empty"))) {
		fputs(usage, stderr);
		return 2;
	}
	buf = malloc(2u << 20);
	want = malloc(2u << 20);
	if (!buf || !want)
		die("out of memory");
	conn_mount(args[0], mount_port ? mount_port : port, args[1], &root);
	conn_open(&conn, args[0], port, (uint32_t)getpid() * 0x10001u);
	conn_fsinfo(&conn, &root);
	find_dir(args[2]);
	if (left == 5) {
		fill(strtoull(args[4], NULL, 0));
	} else {
		remove_files();
		remove_dir(args[2]);
	}
	return 0;
}
