/* A phone book that was there before: names and numbers, asked and changed by lines at a Unix
 * socket.
 *
 *     server BOOK.sock [RUN.sock]
 *
 *     set NAME NUMBER  ->  ok            get NAME  ->  NUMBER, or "unknown"           quit ends it
 *     close, open      ->  ok            asked     ->  questions of the network so far
 *
 * Its event loop is epoll's. With RUN.sock, the host socket of a run of phonebook.py, questions of
 * the network are one more source of events: `phonebook_receive` and `phonebook_send` (marked
 * below) are all that was added, and `phonebook_board`, two words that the program has in its
 * memory too: whether the book is closed, and how many questions there were. If the run ends, the
 * server goes on without it, and attaches to the next one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "phonebook_host.h"

#define MOST 1024

struct entry {
    char name[17];
    uint64_t number;
};

static struct entry book[MOST];
static unsigned entries;

static struct entry *find(const char *name)
{
    for (unsigned i = 0; i < entries; i++)
        if (!strncmp(book[i].name, name, 16))
            return &book[i];
    return NULL;
}

static const char *line(char *text, char *answer, size_t room)
{
    char name[17];
    unsigned long long number;
    if (sscanf(text, "set %16s %llu", name, &number) == 2) {
        struct entry *entry = find(name);
        if (!entry && entries == MOST)
            return "full\n";
        if (!entry)
            entry = &book[entries++];
        memcpy(entry->name, name, sizeof(name));
        entry->number = number;
        return "ok\n";
    }
    if (sscanf(text, "get %16s", name) != 1)
        return "set NAME NUMBER, get NAME or quit\n";
    const struct entry *entry = find(name);
    if (!entry)
        return "unknown\n";
    snprintf(answer, room, "%llu\n", (unsigned long long)entry->number);
    return answer;
}

/* ---- What was added
 * ------------------------------------------------------------------------------------------- */

static struct nf_attach run = {.socket = -1};

static void attach(int poll, const char *path)
{
    if (!path || run.socket >= 0 || phonebook_attach(&run, path))
        return;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = nf_attach_fd(&run)};
    epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
    printf("attached\n");
    fflush(stdout);
}

static void questions(void)
{
    struct phonebook_query query;
    int status;
    while (!(status = phonebook_receive(&run, &query))) {
        char name[17] = {0};
        memcpy(name, query.name.bytes, 16);
        const struct entry *entry = find(name);
        struct phonebook_answer answer = {query.slot, query.turn, entry ? entry->number : 0,
                                          entry != NULL};
        /* A full queue back: the client asks again, as it does for any packet that is lost. */
        phonebook_send(&run, &answer);
    }
    if (status == -EPIPE)
        nf_detach(&run);
}

/* The words of both; the pointer is not kept, since the run may end. */
static const char *words(const char *text, char *answer, size_t room)
{
    volatile uint64_t *board = run.socket >= 0 ? phonebook_board(&run) : NULL;
    if (!board)
        return "not attached\n";
    if (!strncmp(text, "asked", 5)) {
        snprintf(answer, room, "%llu\n", (unsigned long long)board[1]);
        return answer;
    }
    board[0] = !strncmp(text, "close", 5);
    return "ok\n";
}

/* ---- The event loop
 * -------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (argc < 2 || strlen(argv[1]) >= sizeof(address.sun_path)) {
        fprintf(stderr, "usage: server BOOK.sock [RUN.sock]\n");
        return 2;
    }
    strcpy(address.sun_path, argv[1]);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
        poll = epoll_create1(EPOLL_CLOEXEC);
    unlink(argv[1]);
    if (listener < 0 || poll < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) ||
        listen(listener, 8)) {
        perror(argv[1]);
        return 1;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        attach(poll, argc > 2 ? argv[2] : NULL);
        if (epoll_wait(poll, &event, 1, 200) < 1)
            continue;
        if (event.data.fd == listener) {
            struct epoll_event come = {.events = EPOLLIN, .data.fd = accept(listener, NULL, NULL)};
            epoll_ctl(poll, EPOLL_CTL_ADD, come.data.fd, &come);
        } else if (event.data.fd == run.socket) {
            questions();
        } else {
            char text[128], answer[32];
            ssize_t length = read(event.data.fd, text, sizeof(text) - 1);
            if (length <= 0) {
                close(event.data.fd);
                continue;
            }
            text[length] = 0;
            if (!strncmp(text, "quit", 4))
                return 0;
            bool of_board = !strncmp(text, "close", 5) || !strncmp(text, "open", 4) ||
                            !strncmp(text, "asked", 5);
            const char *says =
                of_board ? words(text, answer, sizeof(answer)) : line(text, answer, sizeof(answer));
            if (write(event.data.fd, says, strlen(says)) < 0)
                close(event.data.fd);
        }
    }
}
