/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of byred. */
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include "server/config.h"

enum options_result {
	OPTIONS_RUN,
	OPTIONS_EXIT_OK, /* --help, --version: done */
	OPTIONS_BAD,	 /* the reason is on stderr */
};

/*
 * Fills config from the command line, which counts over a configuration file
 * that it names.
 */
enum options_result options_parse(int argc, char *const *argv, struct srv_config *config);

#endif
