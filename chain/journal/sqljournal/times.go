package sqljournal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// encodeTimes writes each bucket, in order, as its distance from the previous one and its count.
func encodeTimes(t journal.Times) []byte {
	data, before := make([]byte, 0, 3*len(t)), 0
	for _, bucket := range slices.Sorted(maps.Keys(t)) {
		data = binary.AppendUvarint(data, uint64(bucket-before))
		data = binary.AppendUvarint(data, uint64(t[bucket]))
		before = bucket
	}
	return data
}

// errDamaged reports a stored value that this package could not have written.
var errDamaged = errors.New("the database is damaged")

var errTimes = fmt.Errorf("%w: the durations of a day cannot be read", errDamaged)

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
