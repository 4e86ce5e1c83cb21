/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfs-model - random operations of many clients on one NFSv3 export, each answer
 * compared with a model of the tree in memory; see usage. Each client is a thread
 * with a connection of its own, one operation in flight, and a subtree where it is
 * mostly found; all of them also work in a shared one.
 */
#include "nfs-model-run.h"
#include "walk-entry.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUF_BYTES     (2u << 20)
#define DEFAULT_BYTES (256ull << 20)
#define STATUS_GONE   3

struct model_options opt = {.port = 2049,
	.seed = 1,
	.ops = 2000,
	.clients = 4,
	.max_files = 200,
	.sync_percent = 30,
	.max_bytes = DEFAULT_BYTES,
	.hash_limit = WALK_HASH_LIMIT};

struct run run = {.lock = PTHREAD_MUTEX_INITIALIZER, .log_fd = -1};

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("nfs-model: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(2);
}

void fail_op(const struct op *op, const char *why)
{
	fputs("nfs-model: ", stderr);
	op_print(stderr, op);
	fprintf(stderr, ": %s\n", why);
	run.failed = run.stop = true;
}

void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("nfs-model: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	run.failed = run.stop = true;
}

static const char usage[] =
	"usage: nfs-model [options] HOST EXPORT\n"
	"       nfs-model --verify SYNC-LOG DIR\n"
	"  Random operations on an export without root squash, against a model.\n"
	"  --port P            NFS port (2049)\n"
	"  --mount-port P      MOUNT port (the same as --port)\n"
	"  --dir NAME          work in this directory of the export, made if need be (the export)\n"
	"  --seed N, --ops N   what and how much (1, 2000; 0: until the server goes)\n"
	"  --clients N         so many at a time, at most 64 (4)\n"
	"  --files N           about so many files for each client (200)\n"
	"  --bytes N           about so many bytes in all files (256 MiB)\n"
	"  --sync-percent N    so many of the WRITEs are stable (30)\n"
	"  --adopt             there may be a tree already: read it first\n"
	"  --full-ok           NOSPC and DQUOT are answers like others\n"
	"  --lenient           without what nfs-ganesha 4.3 is known to do wrong\n"
	"  --no-large          no files of more than 4 GiB\n"
	"  --manifest FILE     afterwards, what a kernel mount must look like (see manifest)\n"
	"  --start-manifest F  the same before the first operation, with --adopt\n"
	"  --hash-limit N      in manifests: larger files by their two ends only (64 GiB)\n"
	"  --sync-log FILE     each operation and each answer, before the next one\n"
	"  --verify LOG DIR    does DIR, a mount of what --dir was, have all that was answered?\n"
	"Exit status: 0 all as the model says, 1 not so, 2 cannot run, 3 the server went away.\n";

enum {
	OPT_FIRST = 256,
	OPT_VERIFY
};

static void set_option(int o, char *arg)
{
	switch (o) {
	case 'p':
		opt.port = atoi(arg);
		break;
	case 'm':
		opt.mount_port = atoi(arg);
		break;
	case 'd':
		opt.dir = arg;
		break;
	case 's':
		opt.seed = strtoull(arg, NULL, 0);
		break;
	case 'n':
		opt.ops = strtoull(arg, NULL, 0);
		break;
	case 'c':
		opt.clients = (unsigned)atoi(arg);
		break;
	case 'f':
		opt.max_files = (unsigned)atoi(arg);
		break;
	case 'b':
		opt.max_bytes = strtoull(arg, NULL, 0);
		break;
	case 'y':
		opt.sync_percent = (unsigned)atoi(arg);
		break;
	case 'a':
		opt.adopt = true;
		break;
	case 'F':
		opt.full_ok = true;
		break;
	case 'P':
		opt.lenient = true;
		break;
	case 'L':
		opt.no_large = true;
		break;
	case 'M':
		opt.manifest = arg;
		break;
	case 'S':
		opt.start_manifest = arg;
		break;
	case 'l':
		opt.hash_limit = strtoull(arg, NULL, 0);
		break;
	case 'g':
		opt.log = arg;
		break;
	default:
		fputs(usage, o == 'h' ? stdout : stderr);
		exit(o == 'h' ? 0 : 2);
	}
}

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{"port", required_argument, NULL, 'p'},
		{"mount-port", required_argument, NULL, 'm'},
		{"dir", required_argument, NULL, 'd'},
		{"seed", required_argument, NULL, 's'},
		{"ops", required_argument, NULL, 'n'},
		{"clients", required_argument, NULL, 'c'},
		{"files", required_argument, NULL, 'f'},
		{"bytes", required_argument, NULL, 'b'},
		{"sync-percent", required_argument, NULL, 'y'},
		{"adopt", no_argument, NULL, 'a'},
		{"full-ok", no_argument, NULL, 'F'},
		{"lenient", no_argument, NULL, 'P'},
		{"no-large", no_argument, NULL, 'L'},
		{"manifest", required_argument, NULL, 'M'},
		{"start-manifest", required_argument, NULL, 'S'},
		{"hash-limit", required_argument, NULL, 'l'},
		{"sync-log", required_argument, NULL, 'g'},
		{"verify", no_argument, NULL, OPT_VERIFY},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	bool verify = false;
	int o;

	while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1)
		if (o == OPT_VERIFY)
			verify = true;
		else
			set_option(o, optarg);
	if (argc - optind != 2 || opt.clients < 1 || opt.clients > AREAS - 1) {
		fputs(usage, stderr);
		exit(2);
	}
	if (verify)
		exit(verify_main(argv[optind], argv[optind + 1]));
	opt.host = argv[optind];
	opt.export = argv[optind + 1];
	if (!opt.mount_port)
		opt.mount_port = opt.port;
}

static void open_clients(void)
{
	struct handle root;

	conn_mount(opt.host, opt.mount_port, opt.export, &root);
	for (unsigned i = 0; i < opt.clients; i++) {
		struct client *c = &run.clients[i];

		c->id = i;
		c->random = (opt.seed * 0x9e3779b97f4a7c15u + i) * 0xbf58476d1ce4e5b9u | 1;
		for (unsigned k = 0; k < 8; k++)
			rnd(c);
		c->buf = malloc(BUF_BYTES);
		c->want = malloc(BUF_BYTES);
		if (!c->buf || !c->want)
			die("out of memory");
		/* An answer to another run's call must not pass for one to this. */
		conn_open(&c->conn, opt.host, opt.port,
			(uint32_t)getpid() * 0x10001u + i * 0x1000000u);
	}
	conn_fsinfo(&run.clients[0].conn, &root);
	tree_init();
	find_top(&run.clients[0], &root);
}

static int summary(void)
{
	bool gone = false;

	for (unsigned i = 0; i < opt.clients; i++)
		gone |= run.clients[i].gone;
	printf("seed %lu: %lu operations (%lu refused, %lu full), %u nodes%s\n", opt.seed,
		run.done_ops, run.error_counts, run.full_answers, tree.n_nodes,
		gone ? ", the server went away" : "");
	return run.failed ? 1 : gone ? STATUS_GONE : 0;
}

int main(int argc, char **argv)
{
	struct client *first = &run.clients[0];
	int status;

	parse_options(argc, argv);
	if (opt.log) {
		run.log_fd =
			open(opt.log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
		if (run.log_fd < 0)
			die("%s: %s", opt.log, strerror(errno));
	}
	run.nonce = (uint64_t)time(NULL) << 32 ^ (uint64_t)getpid();
	open_clients();
	if (opt.adopt)
		adopt_dir(first, 0, 0);
	if (opt.start_manifest)
		write_manifest(opt.start_manifest);
	make_subtrees(first);
	run.ops_left = opt.ops ? opt.ops : UINT64_MAX;
	for (unsigned i = 0; i < opt.clients; i++)
		if (pthread_create(&run.clients[i].thread, NULL, client_main, &run.clients[i]))
			die("cannot start a thread");
	for (unsigned i = 0; i < opt.clients; i++)
		pthread_join(run.clients[i].thread, NULL);
	status = summary();
	if (status)
		return status;
	learn_attr(first, 0);
	check_dir(first, 0, "");
	if (run.failed)
		return 1;
	if (opt.manifest)
		write_manifest(opt.manifest);
	return 0;
}
