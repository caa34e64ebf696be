/* smoe version: how this program was built, and what it found on this machine. */
#include "cmd.h"
#include "store/env.h"
#include "math/blas.h"

#include <archive.h>
#include <png.h>
#include <yaml.h>
#include <zlib.h>

static const char citations[] =
    "@software{smoe,\n"
    "  author  = {{The smoe authors}},\n"
    "  title   = {smoe: mixtures of experts in vision, from the command line},\n"
    "  year    = {2026},\n"
    "  version = {" SMOE_VERSION "},\n"
    "  note    = {smoe version},\n"
    "}\n\n"
    "@inproceedings{puigcerver2024softmoe,\n"
    "  title     = {From Sparse to Soft Mixtures of Experts},\n"
    "  author    = {Puigcerver, Joan and Riquelme, Carlos and Mustafa, Basil and Houlsby, Neil},\n"
    "  booktitle = {International Conference on Learning Representations},\n"
    "  year      = {2024},\n"
    "  url       = {https://arxiv.org/abs/2308.00951},\n"
    "}\n\n"
    "@inproceedings{riquelme2021vmoe,\n"
    "  title     = {Scaling Vision with Sparse Mixture of Experts},\n"
    "  author    = {Riquelme, Carlos and Puigcerver, Joan and Mustafa, Basil and Neumann, Maxim "
    "and\n"
    "               Jenatton, Rodolphe and Susano Pinto, Andr\\'e and Keysers, Daniel and Houlsby, "
    "Neil},\n"
    "  booktitle = {Advances in Neural Information Processing Systems},\n"
    "  volume    = {34},\n"
    "  year      = {2021},\n"
    "  url       = {https://arxiv.org/abs/2106.05974},\n"
    "}\n\n"
    "@inproceedings{dosovitskiy2021vit,\n"
    "  title     = {An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale},\n"
    "  author    = {Dosovitskiy, Alexey and Beyer, Lucas and Kolesnikov, Alexander and "
    "Weissenborn, Dirk and\n"
    "               Zhai, Xiaohua and Unterthiner, Thomas and Dehghani, Mostafa and Minderer, "
    "Matthias and\n"
    "               Heigold, Georg and Gelly, Sylvain and Uszkoreit, Jakob and Houlsby, Neil},\n"
    "  booktitle = {International Conference on Learning Representations},\n"
    "  year      = {2021},\n"
    "  url       = {https://arxiv.org/abs/2010.11929},\n"
    "}\n";

int cmd_version(const smoe_options *options, smoe_err *err) {
    if (options->cite) {
        fputs(citations, stdout);
        return 0;
    }
    json_auto_t *env = smoe_env_here(options->argc, options->argv);
    /* of a run, not of the program */
    json_object_del(env, "argv");
    json_object_del(env, "cwd");
    json_object_del(env, "date");
    smoe_result result = {0};
    const char *key;
    json_t *value;
    json_object_foreach(env, key, value) {
        if (json_is_string(value))
            smoe_fact_text(&result, key, json_string_value(value), .heading = key);
        else
            smoe_fact_number(&result, key, json_number_value(value), .heading = key,
                             .format = "%.0f");
    }
    const struct {
        const char *name, *version;
    } libraries[] = {{"yaml", yaml_get_version_string()},   {"jansson", jansson_version_str()},
                     {"png", png_get_libpng_ver(NULL)},     {"zlib", zlibVersion()},
                     {"archive", archive_version_string()}, {"blis", smoe_blas_version()}};
    smoe_result_line(&result, "libraries", "%s", "");
    for (size_t i = 0; i < SMOE_COUNT(libraries); i++) {
        char path[32], label[32];
        snprintf(path, sizeof path, "libraries:%s", libraries[i].name);
        snprintf(label, sizeof label, "  %s", libraries[i].name);
        smoe_fact_text(&result, path, libraries[i].version, .heading = label);
    }
    return smoe_cmd_emit(&result, options, err);
}
