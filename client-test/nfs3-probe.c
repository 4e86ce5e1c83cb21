/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfs3-probe - does a server speak NFSv3, MOUNT v3 and ONC RPC as RFC 1813 and
 * RFC 5531 say? Reads a tree that probe-tree made, one line per case.
 */
#include "probe.h"

#include <fnmatch.h>
#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct probe probe = {.port = 2049};

enum outcome {
	PASSED = 0,
	FAILED,
	SKIPPED
};

static jmp_buf leave_case;
static char why[1024], trying[256];

void probe_fail(const char *fmt, ...)
{
	va_list ap;
	int n = 0;

	if (trying[0])
		n = snprintf(why, sizeof(why), "[%s] ", trying);
	va_start(ap, fmt);
	vsnprintf(why + n, sizeof(why) - (size_t)n, fmt, ap);
	va_end(ap);
	longjmp(leave_case, FAILED);
}

void probe_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	longjmp(leave_case, SKIPPED);
}

void probe_trying(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(trying, sizeof(trying), fmt, ap);
	va_end(ap);
}

static enum outcome run_case(void (*run)(void))
{
	enum outcome o;

	trying[0] = '\0';
	o = (enum outcome)setjmp(leave_case);
	if (o == PASSED)
		run();
	conn_close_all();
	probe_release();
	return o;
}

/* Everything else builds on these: without them no case can say anything. */
static void set_up(void)
{
	struct probe_conn *m = conn_open_mount(), *c;
	FSINFO3args fa;
	FSINFO3res fr = {0};
	struct probe_fh kind;
	READ3res r;
	mountstat3 s = mount_path(m, probe.export, &probe.root);

	WANT(s == MNT3_OK, "MNT %s: mountstat %d", probe.export, (int)s);
	c = conn_open();
	fa.fsroot = fh_wire(&probe.root);
	NFS_CALL(c, FSINFO, &fa, &fr);
	want_stat("FSINFO", fr.status, NFS3_OK);
	probe.rtmax = fr.FSINFO3res_u.resok.rtmax;
	probe.wtmax = fr.FSINFO3res_u.resok.wtmax;
	probe.dtpref = fr.FSINFO3res_u.resok.dtpref;
	WANT(try_lookup(c, &probe.root, "kind", &kind) == NFS3_OK,
		"no file \"kind\": make the exported tree with probe-tree");
	fh_read(c, &kind, 0, 64, &r);
	want_stat("READ of kind", r.status, NFS3_OK);
	probe.has_subvolumes = r.READ3res_u.resok.count == 6 &&
		!memcmp(r.READ3res_u.resok.data.data_val, "btrfs\n", 6);
}

static const struct probe_case *const tables[] = {
	probe_rpc_cases,
	probe_mount_cases,
	probe_proc_cases,
	probe_rofs_cases,
	probe_dir_cases,
	probe_perm_cases,
	probe_fh_cases,
	NULL, /* what follows only with --rw */
	probe_write_data_cases,
	probe_write_name_cases,
	probe_write_rpc_cases,
};

static const char usage[] =
	"usage: nfs3-probe [options] HOST EXPORT\n"
	"  EXPORT is a tree made by probe-tree, exported without root squash.\n"
	"  --port P            NFS port (2049)\n"
	"  --mount-port P      MOUNT port (the same as --port)\n"
	"  --rw                the export is writable and may be changed\n"
	"  --restart-command C kills the server and starts it again; with --rw\n"
	"  --squash-export E   the same tree, exported with root squash\n"
	"  --denied-export E   an export that this client may not mount\n"
	"  --only PATTERN      only cases whose name matches (shell pattern)\n"
	"  --list              only print the names of all cases\n";

static const char *only;
static int counts[3];

static void parse_options(int argc, char **argv, bool *list)
{
	static const struct option options[] = {
		{"port", required_argument, NULL, 'p'},
		{"mount-port", required_argument, NULL, 'm'},
		{"rw", no_argument, NULL, 'w'},
		{"restart-command", required_argument, NULL, 'r'},
		{"squash-export", required_argument, NULL, 's'},
		{"denied-export", required_argument, NULL, 'd'},
		{"only", required_argument, NULL, 'o'},
		{"list", no_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int o;

	while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1)
		switch (o) {
		case 'p':
			probe.port = atoi(optarg);
			break;
		case 'm':
			probe.mount_port = atoi(optarg);
			break;
		case 'w':
			probe.read_write = true;
			break;
		case 'r':
			probe.restart_command = optarg;
			break;
		case 's':
			probe.squash_export = optarg;
			break;
		case 'd':
			probe.denied_export = optarg;
			break;
		case 'o':
			only = optarg;
			break;
		case 'l':
			*list = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	if (!probe.mount_port)
		probe.mount_port = probe.port;
	if (*list)
		return;
	if (argc - optind != 2) {
		fputs(usage, stderr);
		exit(2);
	}
	probe.host = argv[optind];
	probe.export = argv[optind + 1];
}

static void run_one(const struct probe_case *pc)
{
	enum outcome o = run_case(pc->run);

	counts[o]++;
	if (o == PASSED)
		printf("ok %s\n", pc->name);
	else if (o == FAILED)
		printf("not ok %s: %s\n", pc->name, why);
	else
		printf("skip %s: %s\n", pc->name, why);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	bool list = false;

	parse_options(argc, argv, &list);
	if (!list && run_case(set_up) != PASSED) {
		printf("not ok set-up: %s\n0 passed, 1 failed, 0 skipped\n", why);
		return 1;
	}
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
		if (!tables[t] && !probe.read_write)
			break;
		for (const struct probe_case *pc = tables[t]; pc && pc->name; pc++) {
			if (only && fnmatch(only, pc->name, 0))
				continue;
			if (list)
				puts(pc->name);
			else
				run_one(pc);
		}
	}
	if (list)
		return 0;
	printf("%d passed, %d failed, %d skipped\n", counts[PASSED], counts[FAILED],
		counts[SKIPPED]);
	if (counts[PASSED] + counts[FAILED] == 0) {
		fprintf(stderr, "nfs3-probe: no case ran\n");
		return 1;
	}
	return counts[FAILED] != 0;
}
