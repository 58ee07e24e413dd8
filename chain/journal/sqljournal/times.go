package sqljournal

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// encodeTimes writes each bucket, in their order, as its distance from the one before and its count.
func encodeTimes(t journal.Times) []byte {
	data, before := make([]byte, 0, 3*len(t)), 0
	for _, bucket := range slices.Sorted(maps.Keys(t)) {
		data = binary.AppendUvarint(data, uint64(bucket-before))
		data = binary.AppendUvarint(data, uint64(t[bucket]))
		before = bucket
	}
	return data
}

// errTimes tells that a text is not one that encodeTimes gives.
var errTimes = errors.New("the database is damaged: the durations of a day cannot be read")

// maxBucket is far above the bucket of the longest time.Duration.
const maxBucket = 1 << 20

func decodeTimes(data []byte) (journal.Times, error) {
	t, bucket := journal.Times{}, uint64(0)
	for len(data) > 0 {
		distance, size := binary.Uvarint(data)
		if size <= 0 || distance > maxBucket || bucket+distance > maxBucket {
			return nil, errTimes
		}
		data, bucket = data[size:], bucket+distance
		count, size := binary.Uvarint(data)
		if size <= 0 {
			return nil, errTimes
		}
		data = data[size:]
		t[int(bucket)] += int64(count)
	}
	return t, nil
}
