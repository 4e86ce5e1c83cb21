/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

void notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (len < 2 || len > sizeof(addr.sun_path) - 1 || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(addr.sun_path, path, len);
	if (path[0] == '@') /* abstract: a NUL, and no terminator */
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		log_debug("the notification socket takes no message");
	close(fd);
}
