/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/ctl/ctl.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"

#define COMMAND_BYTES  256u
#define CLIENT_SECONDS 5

struct ctl {
	/* immutable after init */
	struct daemon *daemon;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	int fd, stop_fd;
	bool started;
	pthread_t pthread;
};

static const struct {
	const char *name;
	char *(*run)(struct daemon *d);
} commands[] = {
	{"stats", ctl_stats},
};

static void send_all(int fd, const char *s)
{
	size_t left = strlen(s);

	while (left) {
		ssize_t n = send(fd, s, left, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		s += n;
		left -= (size_t)n;
	}
}

/* Reads a line without its end. */
static bool read_command(int fd, char line[COMMAND_BYTES])
{
	size_t len = 0;

	while (len < COMMAND_BYTES) {
		ssize_t n = recv(fd, line + len, COMMAND_BYTES - len, 0);
		char *end;

		if (n <= 0)
			return false;
		end = memchr(line + len, '\n', (size_t)n);
		len += (size_t)n;
		if (end) {
			*end = '\0';
			return true;
		}
	}
	return false;
}

static void serve_client(struct ctl *ctl, int fd)
{
	struct timeval limit = {CLIENT_SECONDS, 0};
	char line[COMMAND_BYTES], *answer;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!read_command(fd, line))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(line, commands[i].name))
			continue;
		answer = commands[i].run(ctl->daemon);
		send_all(fd, answer ? answer : "{\"error\": \"out of memory\"}");
		send_all(fd, "\n");
		free(answer);
		return;
	}
	send_all(fd, "{\"error\": \"unknown command\"}\n");
}

static void *ctl_main(void *arg)
{
	struct ctl *ctl = arg;
	struct pollfd fds[2] = {{ctl->fd, POLLIN, 0}, {ctl->stop_fd, POLLIN, 0}};

	pthread_setname_np(pthread_self(), "control");
	for (;;) {
		int fd;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return NULL;
		if (fds[1].revents)
			return NULL;
		fd = accept4(ctl->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		serve_client(ctl, fd);
		close(fd);
	}
}

/* What an earlier run left behind is in the way; another file is not ours. */
static void remove_old_socket(const char *path)
{
	struct stat st;

	if (!lstat(path, &st) && S_ISSOCK(st.st_mode))
		unlink(path);
}

static int listen_at(struct ctl *ctl)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	mode_t mask;
	int ret = 0;

	strcpy(addr.sun_path, ctl->path);
	ctl->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (ctl->fd < 0)
		return -errno;
	remove_old_socket(ctl->path);
	mask = umask(0177);
	if (bind(ctl->fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(ctl->fd, 16))
		ret = -errno;
	umask(mask);
	return ret;
}

int ctl_create(struct daemon *d, const char *path, struct ctl **out)
{
	struct ctl *ctl = calloc(1, sizeof(*ctl));
	int ret = -ENAMETOOLONG;

	if (!ctl)
		return -ENOMEM;
	ctl->daemon = d;
	ctl->fd = -1;
	ctl->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (ctl->stop_fd < 0) {
		ret = -errno;
	} else if (strlen(path) < sizeof(ctl->path)) {
		strcpy(ctl->path, path);
		ret = listen_at(ctl);
	}
	if (!ret)
		ret = -pthread_create(&ctl->pthread, NULL, ctl_main, ctl);
	if (ret) {
		log_error("control socket %s: %s", path, strerror(-ret));
		ctl_destroy(ctl);
		return ret;
	}
	ctl->started = true;
	*out = ctl;
	return 0;
}

void ctl_destroy(struct ctl *ctl)
{
	uint64_t one = 1;

	if (!ctl)
		return;
	if (ctl->started) {
		if (write(ctl->stop_fd, &one, sizeof(one)) == sizeof(one))
			pthread_join(ctl->pthread, NULL);
		unlink(ctl->path);
	}
	if (ctl->fd >= 0)
		close(ctl->fd);
	if (ctl->stop_fd >= 0)
		close(ctl->stop_fd);
	free(ctl);
}
