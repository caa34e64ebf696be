/* Words of command lines; see shell.h. */
#include "base/shell.h"

char *smoe_shell_word(const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+=,:@%";
    if (*text && *text != '=' && !text[strspn(text, plain)]) return smoe_alloc_text(text);
    char *quoted = smoe_alloc_text("'");
    for (size_t n; *text; text += n) {
        n = *text == '\'' ? 1 : strcspn(text, "'");
        if (*text == '\'')
            smoe_text_add(&quoted, "'\\''");
        else
            smoe_text_add(&quoted, "%.*s", (int)n, text);
    }
    smoe_text_add(&quoted, "'");
    return quoted;
}
