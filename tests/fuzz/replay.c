/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs a fuzz target over the files of its corpus, once each, in builds without libFuzzer. The
 * folder is the argument, or $srcdir/tests/fuzz/corpus/fuzz_X for a program called replay_X.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define INPUT_MAX (4u << 20)

static int replay_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(INPUT_MAX), *exact;
	size_t len;

	if (!f || !data) {
		perror(path);
		exit(1);
	}
	len = fread(data, 1, INPUT_MAX, f);
	fclose(f);
	/* In memory of its size, so that reading beyond it is found. */
	exact = malloc(len ? len : 1);
	if (!exact)
		exit(1);
	memcpy(exact, data, len);
	free(data);
	LLVMFuzzerTestOneInput(exact, len);
	free(exact);
	return 1;
}

int main(int argc, char **argv)
{
	const char *srcdir = getenv("srcdir"), *name = strrchr(argv[0], '/');
	char dir[4096], path[8192];
	struct dirent *e;
	int n = 0;
	DIR *d;

	name = strstr(name ? name : argv[0], "replay_");
	if (argc > 1)
		snprintf(dir, sizeof(dir), "%s", argv[1]);
	else
		snprintf(dir, sizeof(dir), "%s/tests/fuzz/corpus/fuzz_%s", srcdir ? srcdir : ".",
			name ? name + strlen("replay_") : "");
	d = opendir(dir);
	if (!d) {
		perror(dir);
		return 1;
	}
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		n += replay_file(path);
	}
	closedir(d);
	printf("%d inputs\n", n);
	return n == 0;
}
