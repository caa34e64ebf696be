/* SentencePiece models; see sentencepiece.h. The library is in C++ and has no other interface. */
#include "text/sentencepiece.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <sentencepiece_processor.h>
#include <string>
#include <vector>

namespace {

using sentencepiece::SentencePieceProcessor;

int encode(void *model, uint32_t *ids, size_t room, size_t *count, const char *text, size_t n) {
    try {
        std::vector<int> all;
        if (!static_cast<SentencePieceProcessor *>(model)->Encode({text, n}, &all).ok()) return -1;
        *count = all.size() < room ? all.size() : room;
        for (size_t i = 0; i < *count; i++) ids[i] = static_cast<uint32_t>(all[i]);
        return 0;
    } catch (const std::exception &) {
        return -1;
    }
}

void close_model(void *model) {
    delete static_cast<SentencePieceProcessor *>(model);
}

} // namespace

extern "C" int smoe_sentencepiece_open_model(smoe_sentencepiece *pieces, const char *path,
                                             char *problem, size_t size) {
    try {
        auto model = std::make_unique<SentencePieceProcessor>();
        const auto status = model->Load(path);
        if (!status.ok()) {
            std::snprintf(problem, size, "%s", status.message());
            return -1;
        }
        *pieces = smoe_sentencepiece{nullptr,         static_cast<size_t>(model->GetPieceSize()),
                              model->bos_id(), model->eos_id(),
                              encode,          close_model};
        pieces->model = model.release();
        return 0;
    } catch (const std::exception &failure) {
        std::snprintf(problem, size, "%s", failure.what());
        return -1;
    }
}
