package journal

import (
	"math"
	"slices"
)

// Sizes counts sizes of results, in bytes, in buckets as wide as those of Times, in order. Bucket 0 is a byte.
type Sizes []SizeCount

// SizeCount is how many results were of one bucket.
type SizeCount struct {
	Bucket int   `json:"bucket"`
	Count  int64 `json:"count"`
}

// Count counts a result of so many bytes.
func (s *Sizes) Count(bytes int) { s.add(bucketOf(float64(bytes)), 1) }

func (s *Sizes) add(bucket int, n int64) {
	at, found := slices.BinarySearchFunc(*s, bucket, func(c SizeCount, bucket int) int { return c.Bucket - bucket })
	if !found {
		*s = slices.Insert(*s, at, SizeCount{Bucket: bucket})
	}
	(*s)[at].Count += n
}

// likelyBuckets is how many buckets are within a factor of about two of their middle.
const likelyBuckets = 12

// Likely returns the size from which most sizes are off by a factor of at most two; 0: there are none.
func (s Sizes) Likely() int64 {
	var most int64
	first, last := 0, 0
	for i := range s {
		var n int64
		end := i
		for j := i; j < len(s) && s[j].Bucket < s[i].Bucket+likelyBuckets; j++ {
			n, end = n+s[j].Count, j
		}
		if n > most {
			most, first, last = n, s[i].Bucket, s[end].Bucket
		}
	}
	if most == 0 {
		return 0
	}
	return int64(math.Round(math.Pow(bucketRatio, float64(first+last)/2-0.5)))
}
