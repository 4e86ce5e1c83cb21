/* SPDX-License-Identifier: GPL-2.0-or-later */
/* byrectl: sends a command to byred's control socket and prints the answer. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DEFAULT_SOCKET "/run/byred.sock"

static const char usage[] = "usage: byrectl [--socket PATH] stats\n"
			    "\n"
			    "  --socket PATH   byred's control socket (" DEFAULT_SOCKET ")\n"
			    "  stats           counters, as JSON\n";

static int connect_to(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Copies the answer to stdout. Returns the exit status. */
static int ask(int fd, const char *command)
{
	char buf[65536];
	ssize_t n, total = 0;

	if (dprintf(fd, "%s\n", command) < 0)
		return 1;
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		if (fwrite(buf, 1, (size_t)n, stdout) != (size_t)n)
			return 1;
		total += n;
	}
	return n < 0 || !total || fflush(stdout);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"socket", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0},
	};
	const char *path = DEFAULT_SOCKET;
	int c, fd, ret;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			path = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'V':
			puts(PACKAGE_STRING);
			return 0;
		default:
			return 2;
		}
	}
	if (optind + 1 != argc || strcmp(argv[optind], "stats")) {
		fputs(usage, stderr);
		return 2;
	}
	fd = connect_to(path);
	if (fd < 0) {
		fprintf(stderr, "byrectl: %s: %s\n", path, strerror(errno));
		return 1;
	}
	ret = ask(fd, argv[optind]);
	if (ret)
		fprintf(stderr, "byrectl: no answer from byred\n");
	close(fd);
	return ret;
}
