/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nfsload.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From clock ticks of 10 ms, but of threads that have ended, too. */
static double cpu_by_ticks(pid_t pid)
{
	char path[64], line[1024], *p;
	unsigned long u = 0, s = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fgets(line, sizeof(line), f) && (p = strrchr(line, ')')))
		sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &u, &s);
	fclose(f);
	return (double)(u + s) / (double)sysconf(_SC_CLK_TCK);
}

/* Nanoseconds the living threads of a process have run. */
static uint64_t cpu_of_threads(pid_t pid)
{
	char path[64];
	struct dirent *e;
	uint64_t sum = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		char file[350];
		uint64_t ns;
		FILE *f;

		snprintf(file, sizeof(file), "%s/%s/schedstat", path, e->d_name);
		f = e->d_name[0] == '.' ? NULL : fopen(file, "r");
		if (!f)
			continue;
		if (fscanf(f, "%lu", &ns) == 1)
			sum += ns;
		fclose(f);
	}
	if (dir)
		closedir(dir);
	return sum;
}

double cpu_of(pid_t pid)
{
	uint64_t ns = cpu_of_threads(pid);

	return ns ? (double)ns / 1e9 : cpu_by_ticks(pid);
}

/* CPU seconds of all kernel threads: where the kernel's file system does its
 * background work.  Other users of the machine count here too. */
double cpu_of_kernel_threads(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	double sum = 0;

	while (dir && (e = readdir(dir))) {
		char path[300], line[1024], *p;
		int ppid = 0;
		FILE *f;

		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fgets(line, sizeof(line), f) && (p = strrchr(line, ')')))
			sscanf(p + 2, "%*c %d", &ppid);
		fclose(f);
		if (ppid == 2)
			sum += cpu_by_ticks(atoi(e->d_name));
	}
	if (dir)
		closedir(dir);
	return sum;
}

double rss_kib(pid_t pid)
{
	char path[64];
	long size = 0, rss = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%ld %ld", &size, &rss) != 2)
		rss = 0;
	fclose(f);
	return (double)rss * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static double percentile_us(const struct tally *t, double p)
{
	uint64_t seen = 0, total = 0;

	for (int b = 0; b < BUCKETS; b++)
		total += t->hist[b];
	for (int b = 0; b < BUCKETS; b++) {
		seen += t->hist[b];
		if (total && (double)seen >= p * (double)total)
			return ldexp(1 + (b % 8 + 0.5) / 8, b / 8) / 1e3;
	}
	return 0;
}

static void sum(struct tally *all, const struct tally *tallies)
{
	memset(all, 0, sizeof(*all));
	for (int c = 0; c < opt.conns; c++) {
		const struct tally *t = &tallies[c];

		all->ops += t->ops;
		all->bytes += t->bytes;
		all->errors += t->errors;
		for (int b = 0; b < BUCKETS; b++)
			all->hist[b] += t->hist[b];
		for (int d = 0; d < FILL_DIRS; d++) {
			all->dir_ops[d] += t->dir_ops[d];
			if (t->dir_ns[d] > all->dir_ns[d])
				all->dir_ns[d] = t->dir_ns[d];
		}
	}
}

void report(const char *phase, const struct tally *tallies, const struct phase_time *time)
{
	struct tally all;
	double secs = time->seconds;

	sum(&all, tallies);
	printf("%s phase=%s c=%d d=%d ops=%lu errs=%lu secs=%.3f ops_s=%.0f "
	       "MiB_s=%.1f p50us=%.0f p99us=%.0f p999us=%.0f",
		opt.label, phase, opt.conns, opt.depth, all.ops, all.errors, secs,
		(double)all.ops / secs, (double)all.bytes / secs / (1 << 20),
		percentile_us(&all, .5), percentile_us(&all, .99), percentile_us(&all, .999));
	if (opt.server)
		printf(" srv_cpu=%.2f srv_us_op=%.2f srv_s_GiB=%.3f "
		       "srv_rss_MiB=%.1f",
			time->server_cpu, all.ops ? time->server_cpu * 1e6 / (double)all.ops : 0,
			all.bytes ? time->server_cpu / ((double)all.bytes / 0x1p30) : 0,
			rss_kib(opt.server) / 1024);
	printf(" kthr_cpu=%.2f cli_cpu=%.2f\n", time->kernel_cpu, time->client_cpu);
	if (!strcmp(phase, "fill") || !strcmp(phase, "empty"))
		for (int d = 0; d < FILL_DIRS; d++)
			printf("  dir %d: %lu files, %.3f s\n", d, all.dir_ops[d],
				(double)all.dir_ns[d] / 1e9);
	fflush(stdout);
}
