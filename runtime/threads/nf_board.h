/* SPDX-License-Identifier: 0BSD
 *
 * nf_board.h (threads) - the port layer: all that generated programs of cores ask of what they run
 * on. nf_process.c has it for a process of an operating system. A target file names a folder with
 * another one ([toolchain] board), for bare cores; docs/dev/port.md says what each call must do.
 */
#ifndef NF_BOARD_H
#define NF_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The next byte of the input; -1 at its end. Waits for one. */
int nf_board_read(void);
/* Writes bytes to the output, in order. Called by the core that runs main only. */
void nf_board_write(const void *bytes, size_t size);
/* What was written is on its way. */
void nf_board_flush(void);
/* Runs core(0) to core(count - 1), each on a core of its own beside the caller's; false if there
 * are too few. */
bool nf_board_start(unsigned count, void (*core)(unsigned number));
/* Comes back when all of them have. */
void nf_board_join(void);
/* Called again and again by a core that waits for another. */
void nf_board_relax(void);
/* A counter of this core, and how often it counts in a second. */
uint64_t nf_board_cycles(void);
uint64_t nf_board_hz(void);

#endif
