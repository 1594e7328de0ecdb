/* Lets user-mode Linux 6.1 run on a processor with AMX, by LD_PRELOAD (uml.py).
 *
 * It writes the floating-point registers of its programs by PTRACE_SETREGSET with the 2,696 bytes
 * of XSAVE area that it knows; a kernel whose area is larger refuses all but a whole one (EFAULT).
 * Here the rest of the area is read first and goes with them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

long ptrace(enum __ptrace_request request, ...)
{
    static long (*next)(enum __ptrace_request, ...);
    static char area[1 << 16];
    va_list others;
    va_start(others, request);
    int process = va_arg(others, int);
    void *address = va_arg(others, void *);
    void *data = va_arg(others, void *);
    va_end(others);
    if (!next)
        next = dlsym(RTLD_NEXT, "ptrace");
    if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE) {
        struct iovec *known = data;
        struct iovec whole = {area, sizeof area};
        if (next(PTRACE_GETREGSET, process, address, &whole) == 0 && whole.iov_len > known->iov_len) {
            memcpy(area, known->iov_base, known->iov_len);
            return next(request, process, address, &whole);
        }
    }
    return next(request, process, address, data);
}
