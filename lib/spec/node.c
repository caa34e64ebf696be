/* The tree of a YAML text, from the events of libyaml; see node.h. */
#include "spec/node.h"

#include <yaml.h>

enum { DEEPEST = 16 }; /* nesting; deeper than any key of the table */

typedef struct composer {
    smoe_tree *tree;
    const smoe_provenance *where;
    const char *text;
    size_t length;
    yaml_parser_t parser;
} composer;

static smoe_provenance place_of(const composer *c, const yaml_mark_t *mark) {
    smoe_provenance where = *c->where;
    where.line = mark->line + 1;
    where.column = mark->column + 1;
    return where;
}

static void tree_stop(composer *c, smoe_provenance where, char *trouble) {
    c->tree->where = where;
    c->tree->trouble = trouble;
}

/* Whether the character at a place is a tab, which looks like spaces. */
static bool is_tab(const composer *c, const yaml_mark_t *mark) {
    size_t at = 0;
    for (size_t line = 0; line < mark->line && at < c->length; at++) line += c->text[at] == '\n';
    return at + mark->column < c->length && c->text[at + mark->column] == '\t';
}

/* The error of libyaml; for a byte that is not a character it has an offset instead of a line. */
static void syntax_trouble(composer *c) {
    const yaml_parser_t *parser = &c->parser;
    const char *problem = parser->problem ? parser->problem : "unknown error";
    bool colon = !strcmp(problem, "could not find expected ':'"); /* seen on a later line */
    bool escape = !strcmp(problem, "found invalid Unicode character escape code");
    smoe_provenance where = place_of(c, colon ? &parser->context_mark : &parser->problem_mark);
    if (parser->error == YAML_MEMORY_ERROR) smoe_alloc_end();
    if (parser->error == YAML_READER_ERROR) {
        where.line = where.column = 1;
        for (size_t i = 0; i < parser->problem_offset && i < c->length; i++) {
            where.column = c->text[i] == '\n' ? 1 : where.column + 1;
            where.line += c->text[i] == '\n';
        }
    }
    tree_stop(
        c, where,
        smoe_text_format("not YAML: %s%s%s%s", parser->context ? parser->context : "",
                         parser->context ? ", " : "", problem,
                         colon    ? ": write KEY: VALUE, with a blank"
                         : escape ? ": write the character itself; YAML has no pairs of escapes "
                                    "for one, as JSON has"
                         : parser->error == YAML_SCANNER_ERROR && is_tab(c, &parser->problem_mark)
                             ? ": a tab; indent with spaces"
                             : ""));
}

static smoe_node *node_of(composer *c, const yaml_event_t *event) {
    const yaml_char_t *anchor = NULL, *tag = NULL;
    smoe_node *node = smoe_alloc_in(&c->tree->pool, 1, sizeof *node);
    node->where = place_of(c, &event->start_mark);
    if (event->type == YAML_SCALAR_EVENT) {
        const char *text = (const char *)event->data.scalar.value;
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        if (strlen(text) == event->data.scalar.length)
            node->text = smoe_alloc_text_in(&c->tree->pool, text);
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        node->kind = SMOE_NODE_LIST;
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        node->kind = SMOE_NODE_MAP;
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    } else {
        node->kind = SMOE_NODE_ALIAS;
        node->refused = "an alias (*)";
    }
    if (anchor || tag) node->refused = anchor ? "an anchor (&)" : "a tag (!)";
    return node;
}

/* The next node, with all that it contains; NULL where the list, mapping or text ends. */
static smoe_node *read_node(composer *c, size_t depth) {
    yaml_event_t event;
    smoe_node *node = NULL;
    if (!yaml_parser_parse(&c->parser, &event)) {
        syntax_trouble(c);
        return NULL;
    }
    bool starts = event.type == YAML_SCALAR_EVENT || event.type == YAML_SEQUENCE_START_EVENT ||
                  event.type == YAML_MAPPING_START_EVENT || event.type == YAML_ALIAS_EVENT;
    if (starts) node = node_of(c, &event);
    yaml_event_delete(&event);
    if (!node || (node->kind != SMOE_NODE_LIST && node->kind != SMOE_NODE_MAP)) return node;
    if (depth > DEEPEST)
        tree_stop(c, node->where, smoe_text_format("nested more than %d deep", DEEPEST));
    smoe_node **last = &node->first;
    for (smoe_node *inner; !c->tree->trouble && (inner = read_node(c, depth + 1));) {
        if (node->kind == SMOE_NODE_MAP && !(inner->value = read_node(c, depth + 1))) break;
        *last = inner;
        last = &inner->next;
    }
    node->cut = c->tree->trouble != NULL;
    return node;
}

/* The type of the next event, which is no node; YAML_NO_EVENT where reading has ended. */
static yaml_event_type_t next_boundary(composer *c, smoe_provenance *where) {
    yaml_event_t event;
    if (c->tree->trouble) return YAML_NO_EVENT;
    if (!yaml_parser_parse(&c->parser, &event)) {
        syntax_trouble(c);
        return YAML_NO_EVENT;
    }
    yaml_event_type_t type = event.type;
    *where = place_of(c, &event.start_mark);
    yaml_event_delete(&event);
    return type;
}

void smoe_tree_read(smoe_tree *tree, const char *text, size_t length,
                    const smoe_provenance *where) {
    composer c = {.tree = tree, .where = where, .text = text, .length = length};
    smoe_provenance at;
    *tree = (smoe_tree){0};
    if (!yaml_parser_initialize(&c.parser)) smoe_alloc_end();
    yaml_parser_set_input_string(&c.parser, (const unsigned char *)text, length);
    (void)next_boundary(&c, &at); /* the start of the stream */
    if (next_boundary(&c, &at) == YAML_DOCUMENT_START_EVENT) {
        tree->root = read_node(&c, 0);
        (void)next_boundary(&c, &at); /* the end of the document */
        if (next_boundary(&c, &at) == YAML_DOCUMENT_START_EVENT)
            tree_stop(&c, at, smoe_alloc_text("a second document begins; a spec has only one"));
    }
    yaml_parser_delete(&c.parser);
}

void smoe_tree_free(smoe_tree *tree) {
    free(tree->trouble);
    smoe_alloc_pool_free(&tree->pool);
}

bool smoe_node_allowed(smoe_reading *reading, const smoe_node *node, const char *key) {
    if (node->refused)
        smoe_reading_problem(reading, &node->where, key,
                             "%s is not possible here: write the value itself", node->refused);
    return !node->refused;
}

size_t smoe_node_among(const smoe_node *key, const char *const *names) {
    size_t i = 0;
    while (names[i] && !(key->text && !strcmp(names[i], key->text))) i++;
    return i;
}
