// Command pack writes the packed vocabulary of o200k_base, which package bpe embeds, to a file.
package main

import (
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pack FILE")
		os.Exit(2)
	}
	if err := pack(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// pack writes the lengths of all tokens by rank, then their bytes in the same order, compressed.
func pack(file string) error {
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe("o200k_base.tiktoken")
	if err != nil {
		return err
	}
	tokens := make([]string, len(ranks))
	for token, rank := range ranks {
		if rank < 0 || rank >= len(tokens) || tokens[rank] != "" || token == "" || len(token) > 255 {
			return fmt.Errorf("token %q of rank %d does not fit: ranks must run from 0 without gaps, lengths from 1 to 255", token, rank)
		}
		tokens[rank] = token
	}
	var lengths, bytes []byte
	for _, token := range tokens {
		lengths = append(lengths, byte(len(token)))
		bytes = append(bytes, token...)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		return err
	}
	return os.WriteFile(file, encoder.EncodeAll(append(lengths, bytes...), nil), 0o644)
}
