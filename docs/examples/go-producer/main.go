// Request log lines to request events on Kafka.
//
//	go run . -brokers localhost:9092 -topic kvset.requests < requests.jsonl
//
// A line: {"event_time": ms, "pool": "llama-70b/eu", "tokens": [..], "output_tokens": 90, "duration_ms": 1200,
// "namespace": "tenant-a"}; the last three may be left out. Page ids are made as schemas/page-ids.md says.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/zeebo/xxh3"
)

const namespaceSeed = 0x6b7673657473636f

type line struct {
	EventTime    int64    `json:"event_time"`
	Pool         string   `json:"pool"`
	Tokens       []uint32 `json:"tokens"`
	OutputTokens *int64   `json:"output_tokens"`
	DurationMs   *int64   `json:"duration_ms"`
	Namespace    *string  `json:"namespace"`
}

type event struct {
	EventTime int64 `json:"event_time"`
	PageSize  int   `json:"page_size"`
	// Go writes bytes as base64, which is the packed form in JSON.
	PageIDs []byte `json:"page_ids"`
	// They are, by the way they are made: a long request is then known by a few of its ids.
	IDsChained   bool   `json:"ids_chained"`
	InputTokens  int    `json:"input_tokens"`
	OutputTokens *int64 `json:"output_tokens"`
	DurationMs   *int64 `json:"duration_ms"`
}

// pageIDs gives the packed ids of the full pages, each chained with every page before it.
func pageIDs(tokens []uint32, pageSize int, namespace *string) []byte {
	var previous uint64
	if namespace != nil {
		previous = max(1, xxh3.HashSeed([]byte(*namespace), namespaceSeed))
	}
	ids := []byte{}
	for ; len(tokens) >= pageSize; tokens = tokens[pageSize:] {
		page := binary.LittleEndian.AppendUint64(nil, previous)
		for _, token := range tokens[:pageSize] {
			page = binary.LittleEndian.AppendUint32(page, token)
		}
		previous = xxh3.Hash(page)
		ids = binary.LittleEndian.AppendUint64(ids, previous)
	}
	return ids
}

func produce(client *kgo.Client, input io.Reader, pageSize int) error {
	decoder := json.NewDecoder(bufio.NewReader(input))
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	for {
		var l line
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		value, err := json.Marshal(event{
			EventTime:    l.EventTime,
			PageSize:     pageSize,
			PageIDs:      pageIDs(l.Tokens, pageSize, l.Namespace),
			IDsChained:   true,
			InputTokens:  len(l.Tokens),
			OutputTokens: l.OutputTokens,
			DurationMs:   l.DurationMs,
		})
		if err != nil {
			return err
		}
		// The key is the pool: requests of one pool stay in one partition, in order.
		record := &kgo.Record{Key: []byte(l.Pool), Value: value}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				stop(err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func main() {
	brokers := flag.String("brokers", "localhost:9092", "brokers to begin with, separated by commas")
	topic := flag.String("topic", "kvset.requests", "topic to write to")
	pageSize := flag.Int("page-size", 64, "tokens a page")
	flag.Parse()
	// The client is idempotent: a retry neither doubles records nor changes their order.
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(*brokers, ",")...),
		kgo.DefaultProduceTopic(*topic),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		// Kafka's own hash of the key, so that pools go where other clients put them.
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := produce(client, os.Stdin, *pageSize); err != nil {
		log.Fatalf("not everything was delivered: %v", err)
	}
}
