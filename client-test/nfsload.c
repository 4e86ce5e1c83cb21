/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfsload - a load generator for NFSv3 servers, and for local directories. The
 * usage text below says what it can do.
 *
 * Every connection (-c) is one process with one TCP connection and keeps up to -d
 * requests in flight on it. All connections start each phase together (a barrier),
 * and the phase ends when the last of them is done.
 */
#include "nfsload.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
	"usage: nfsload [options] nfs://HOST/EXPORT PHASE...   NFSv3\n"
	"       nfsload [options] /some/directory   PHASE...   the same, locally\n"
	"A tree made by local phases can be read over NFS with the same -n -D -S -c.\n"
	"Phases, small files (-n files of 1..64 KiB in -D directories; a connection\n"
	"owns whole directories):\n"
	"  mkdirs    MKDIR\n"
	"  create    CREATE + WRITE (+ COMMIT, see -s), one file at a time per slot\n"
	"  ls        READDIRPLUS of every directory, an op is an entry\n"
	"  stat      LOOKUP of every file, by name\n"
	"  read      LOOKUP + READ of the whole file\n"
	"  rm rmdirs REMOVE, RMDIR\n"
	"Phases, fill to ENOSPC:\n"
	"  fill      1 KiB files in 8 directories, one after another\n"
	"  empty     READDIRPLUS + REMOVE of all that, then RMDIR\n"
	"Phases, one big file per connection (-S bytes, -b bytes a request):\n"
	"  seqw seqr the whole file once;  randw randr  for -t seconds\n"
	"Others:\n"
	"  null      NFSPROC3_NULL for -t seconds: the cost of the RPC alone\n"
	"  hold      opens -c idle connections from one process, a NULL on each, holds\n"
	"            them for -t seconds, prints the server's growth per connection\n"
	"Options:\n"
	"  -c N  connections (1)         -d N  requests in flight on each (1)\n"
	"  -s unstable|commit|filesync   WRITE UNSTABLE only; then COMMIT; FILE_SYNC\n"
	"        (local: no fsync; fsync before close; O_SYNC)\n"
	"  -n N  files (20000)           -D N  directories (200)\n"
	"  -S N  big-file size (1g)      -b N  request size (1m)\n"
	"  -t N  seconds (10)            -r N  repeat small-file read phases (1)\n"
	"  -P N  NFS port (2049)         -M N  MOUNT port (as -P; 0: ask port 111)\n"
	"  -p PID  server: its CPU seconds and resident size are printed too\n"
	"  -l TEXT label printed on each line\n"
	"  -i    (local big files) O_DIRECT\n";

struct options opt = {
	.conns = 1,
	.depth = 1,
	.files = 20000,
	.dirs = 200,
	.seconds = 10,
	.repeat = 1,
	.port = 2049,
	.mount_port = -1,
	.stable = COMMIT_EACH,
	.size = 1ull << 30,
	.block = 1 << 20,
	.label = "-",
};

static struct shared {
	pthread_barrier_t start, end;
	struct tally tally[MAX_CONN];
} * shared;

static pid_t kids[MAX_CONN];
static char *payload; /* what WRITE sends: not compressible, not zero */

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("nfsload: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

unsigned small_size(int file)
{
	double u = (double)(mix((uint64_t)file) >> 11) * 0x1p-53;

	return (unsigned)(1024 * pow(64, u));
}

int files_per_dir(void)
{
	return (opt.files + opt.dirs - 1) / opt.dirs;
}

void dir_name(char buf[NAME_SIZE], int dir)
{
	snprintf(buf, NAME_SIZE, "d%04d", dir);
}

void file_name(char buf[NAME_SIZE], int file)
{
	snprintf(buf, NAME_SIZE, "f%06d", file);
}

void big_name(char buf[NAME_SIZE], int conn)
{
	snprintf(buf, NAME_SIZE, "big.%03d", conn);
}

static void make_payload(void)
{
	uint64_t bytes = DATA_PERIOD + opt.block + MAX_SMALL;

	payload = malloc(bytes);
	if (!payload)
		die("out of memory");
	for (uint64_t i = 0; i < bytes; i++)
		payload[i] = i < DATA_PERIOD ? (char)(mix(i / 8) >> (8 * (i % 8)))
					     : payload[i - DATA_PERIOD];
}

const char *data_at(uint64_t file_off)
{
	return payload + file_off % DATA_PERIOD;
}

void check_data(const char *data, uint64_t file_off, uint64_t bytes)
{
	const char *want = data_at(file_off);
	uint64_t n = bytes < 16 ? bytes : 16;

	if (memcmp(data, want, n) || memcmp(data + bytes - n, want + bytes - n, n))
		die("WRONG DATA at offset %lu", file_off);
}

void count_op(struct tally *t, uint64_t start_ns, uint64_t bytes)
{
	uint64_t ns = now_ns() - start_ns;
	int log = ns ? 63 - __builtin_clzll(ns) : 0;
	int sub = log >= 3 ? (int)(ns >> (log - 3)) & 7 : 0;
	int bucket = log * 8 + sub;

	t->hist[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
	t->ops++;
	t->bytes += bytes;
}

/* -- processes -------------------------------------------------------------- */

/* A connection that fails would leave the others at the barrier: end them all. */
static void on_child_exit(int sig)
{
	int status;

	(void)sig;
	while (waitpid(-1, &status, WNOHANG) > 0)
		if (status) {
			for (int c = 0; c < opt.conns; c++)
				if (kids[c] > 0)
					kill(kids[c], SIGTERM);
			_exit(1);
		}
}

static void await_start(void)
{
	pthread_barrier_wait(&shared->start);
}

static void await_end(void)
{
	pthread_barrier_wait(&shared->end);
}

static void child(int id, char **phases)
{
	struct tally *t = &shared->tally[id];

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGCHLD, SIG_DFL);
	if (opt.host) {
		run_nfs(id, t, phases, await_start, await_end);
	} else {
		if (chdir(opt.path))
			die("no directory %s", opt.path);
		for (; *phases; phases++) {
			await_start();
			memset(t, 0, sizeof(*t));
			run_local(id, t, *phases);
			await_end();
		}
	}
	await_start(); /* stay until the last report has read our CPU time */
	exit(0);
}

static void start_children(char **phases)
{
	pthread_barrierattr_t attr;

	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("out of memory");
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->start, &attr, (unsigned)opt.conns + 1);
	pthread_barrier_init(&shared->end, &attr, (unsigned)opt.conns + 1);
	signal(SIGCHLD, on_child_exit);
	for (int c = 0; c < opt.conns; c++) {
		kids[c] = fork();
		if (kids[c] < 0)
			die("fork failed");
		if (kids[c] == 0)
			child(c, phases);
	}
}

static double cpu_of_children(void)
{
	double sum = 0;

	for (int c = 0; c < opt.conns; c++)
		sum += cpu_of(kids[c]);
	return sum;
}

static void time_phase(const char *phase)
{
	struct phase_time t;
	uint64_t start;

	t.server_cpu = cpu_of(opt.server);
	t.kernel_cpu = cpu_of_kernel_threads();
	t.client_cpu = cpu_of_children();
	start = now_ns();
	await_start();
	await_end();
	t.seconds = (double)(now_ns() - start) / 1e9;
	t.server_cpu = cpu_of(opt.server) - t.server_cpu;
	t.kernel_cpu = cpu_of_kernel_threads() - t.kernel_cpu;
	t.client_cpu = cpu_of_children() - t.client_cpu;
	report(phase, shared->tally, &t);
}

/* -- options ---------------------------------------------------------------- */

static uint64_t parse_size(const char *s)
{
	char *end;
	uint64_t v = strtoull(s, &end, 10);

	switch (*end) {
	case 'k':
		return v << 10;
	case 'm':
		return v << 20;
	case 'g':
		return v << 30;
	case '\0':
		return v;
	default:
		die("%s: not a size", s);
	}
}

static int parse_count(const char *s, int least)
{
	char *end;
	long v = strtol(s, &end, 10);

	if (*end || v < least || v > 100000000)
		die("%s: not a number from %d", s, least);
	return (int)v;
}

static enum stable parse_stable(const char *s)
{
	if (!strcmp(s, "unstable"))
		return UNSTABLE_ONLY;
	if (!strcmp(s, "commit"))
		return COMMIT_EACH;
	if (!strcmp(s, "filesync"))
		return SYNC_EACH;
	die("-s is unstable, commit or filesync");
}

static void parse_target(char *target)
{
	char *slash;

	opt.path = target;
	if (strncmp(target, "nfs://", 6))
		return;
	opt.host = target + 6;
	slash = strchr(opt.host, '/');
	opt.path = slash ? strdup(slash) : NULL;
	if (!opt.path)
		die("%s: no export path", target);
	*slash = '\0';
}

static void parse_option(int o)
{
	switch (o) {
	case 'c':
		opt.conns = parse_count(optarg, 1);
		break;
	case 'd':
		opt.depth = parse_count(optarg, 1);
		break;
	case 's':
		opt.stable = parse_stable(optarg);
		break;
	case 'n':
		opt.files = parse_count(optarg, 1);
		break;
	case 'D':
		opt.dirs = parse_count(optarg, 1);
		break;
	case 'S':
		opt.size = parse_size(optarg);
		break;
	case 'b':
		opt.block = parse_size(optarg);
		break;
	case 't':
		opt.seconds = parse_count(optarg, 0);
		break;
	case 'r':
		opt.repeat = parse_count(optarg, 1);
		break;
	case 'P':
		opt.port = parse_count(optarg, 1);
		break;
	case 'M':
		opt.mount_port = parse_count(optarg, 0);
		break;
	case 'p':
		opt.server = parse_count(optarg, 1);
		break;
	case 'l':
		opt.label = optarg;
		break;
	case 'i':
		opt.direct = true;
		break;
	default:
		fputs(usage, o == 'h' ? stdout : stderr);
		exit(o == 'h' ? 0 : 2);
	}
}

int main(int argc, char **argv)
{
	char **phases;
	int o;

	while ((o = getopt(argc, argv, "c:d:s:n:D:S:b:t:r:P:M:p:l:ih")) != -1)
		parse_option(o);
	if (argc - optind < 2)
		parse_option('?');
	if (opt.mount_port < 0)
		opt.mount_port = opt.port;
	parse_target(argv[optind]);
	phases = argv + optind + 1;
	if (!strcmp(phases[0], "hold")) {
		hold();
		return 0;
	}
	if (opt.conns > MAX_CONN)
		die("at most %d connections", MAX_CONN);
	if (!opt.block || opt.size < opt.block)
		die("-S must be at least -b");
	make_payload();
	start_children(phases);
	for (char **p = phases; *p; p++)
		time_phase(*p);
	await_start();
	while (wait(NULL) > 0)
		;
	return 0;
}
