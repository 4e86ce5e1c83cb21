/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfsload.h - shared by the files of nfsload, a load generator. Each connection is
 * a process; what it counts lives in shared memory (struct tally), all else here is
 * set before the processes start and never changed.
 */
#ifndef BYRE_CLIENT_TEST_NFSLOAD_H
#define BYRE_CLIENT_TEST_NFSLOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MAX_CONN  256
#define FILL_DIRS 8
#define FILL_SIZE 1024
#define MAX_SMALL (64 * 1024)
#define BUCKETS	  (40 * 8) /* latency: 8 buckets per power of two, in ns */
/* Data repeats after this many bytes; not a multiple of any extent size. */
#define DATA_PERIOD ((4u << 20) + 4096)

enum stable {
	UNSTABLE_ONLY,
	COMMIT_EACH,
	SYNC_EACH
};

struct options {
	int conns, depth, files, dirs, seconds, repeat, port, mount_port;
	bool direct;
	enum stable stable;
	uint64_t size, block;
	pid_t server;
	const char *label, *host; /* host is NULL for a local directory */
	char *path;
};
extern struct options opt;

/* What one connection counted in one phase. */
struct tally {
	uint64_t ops, bytes, errors;
	uint64_t dir_ops[FILL_DIRS], dir_ns[FILL_DIRS];
	uint32_t hist[BUCKETS];
};

struct phase_time {
	double seconds, server_cpu, kernel_cpu, client_cpu;
};

/* -- nfsload.c -- */
__attribute__((format(printf, 1, 2), noreturn)) void die(const char *fmt, ...);
uint64_t now_ns(void);
uint64_t mix(uint64_t x); /* splitmix64: the same sizes and data every run */
unsigned small_size(int file);
int files_per_dir(void); /* file i lives in directory i / files_per_dir() */
#define NAME_SIZE 16
void dir_name(char buf[NAME_SIZE], int dir);
void file_name(char buf[NAME_SIZE], int file);
void big_name(char buf[NAME_SIZE], int conn);
/* What every file holds at an offset: big files from their start, small file i as
 * from offset i * 4096. opt.block + MAX_SMALL bytes may be read there. */
const char *data_at(uint64_t file_off);
/* Ends the program if data read there is wrong at its first or last bytes. */
void check_data(const char *data, uint64_t file_off, uint64_t bytes);
void count_op(struct tally *t, uint64_t start_ns, uint64_t bytes);

/* -- the phases -- */
void run_nfs(int id, struct tally *t, char **phases, void (*before)(void), void (*after)(void));
void run_local(int id, struct tally *t, const char *phase);
void hold(void); /* all idle connections from this process */

/* -- nfsload-report.c -- */
double cpu_of(pid_t pid); /* seconds, user and system, all threads */
double cpu_of_kernel_threads(void);
double rss_kib(pid_t pid);
void report(const char *phase, const struct tally *tallies, const struct phase_time *time);

#endif
