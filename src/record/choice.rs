//! The macro [`choice!`](crate::choice!). Its invariants are those of [`record!`](crate::record!).

/// Defines an enum whose values are JSON strings, and its schema.
///
/// ```
/// use tinymcp::{choice, json, record};
///
/// choice! {
///     /// Direction of a pin
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Direction {
///         In = "in",
///         /// Starts low
///         Out = "out",
///     }
/// }
///
/// assert_eq!(
///     record::schema::<Direction>().as_str(),
///     concat!(
///         r#"{"type":"string","description":"Direction of a pin\n- out: Starts low","#,
///         r#""enum":["in","out"]}"#
///     )
/// );
/// assert_eq!(Direction::Out.as_str(), "out");
///
/// let doc = json!("Out").to_doc();
/// assert_eq!(
///     record::decode::<Direction>(doc.root()).unwrap_err().message,
///     r#"expected one of "in", "out", got the string "Out", did you mean "out"?"#
/// );
/// ```
///
/// A variant without `= "word"` uses its own name in JSON. Attributes stay on the enum and its
/// variants. Doc comments become the `description`, those of variants as a list.
#[macro_export]
macro_rules! choice {
    (
        $(#[$($attribute:tt)*])*
        $vis:vis enum $name:ident {$(
            $(#[$($word_attribute:tt)*])*
            $variant:ident $(= $word:literal)?
        ),+ $(,)?}
    ) => {
        $(#[$($attribute)*])*
        $vis enum $name {$(
            $(#[$($word_attribute)*])*
            $variant,
        )+}

        impl $name {
            /// The JSON string of this value.
            $vis const fn as_str(&self) -> &'static str {
                match self {
                    $(Self::$variant => $crate::__record_name!($variant $($word)?),)+
                }
            }
        }

        #[automatically_derived]
        impl $crate::record::FromJson for $name {
            fn schema(w: &mut $crate::json::Writer, constraint: &$crate::record::Constraint) {
                const DOC: &str = $crate::__record_doc!($([$($attribute)*])*);
                $crate::record::generated::choice_schema(
                    w,
                    constraint,
                    DOC,
                    &[$($crate::__record_name!($variant $($word)?)),+],
                    &[$($crate::__record_doc!($([$($word_attribute)*])*)),+],
                );
            }

            fn from_json(
                value: $crate::json::Value<'_>,
                _: &$crate::record::Constraint,
            ) -> ::core::result::Result<Self, $crate::record::generated::ReadError> {
                const WORDS: &[&str] = {
                    $crate::record::generated::distinct(&[$((
                        $crate::__record_name!($variant $($word)?),
                        ::core::concat!("the word of `", ::core::stringify!($variant), "` occurs twice"),
                    )),+]);
                    &[$($crate::__record_name!($variant $($word)?)),+]
                };
                let text = value.as_str();
                $(
                    if text == ::core::option::Option::Some(
                        $crate::__record_name!($variant $($word)?)
                    ) {
                        return ::core::result::Result::Ok(Self::$variant);
                    }
                )+
                ::core::result::Result::Err($crate::record::generated::not_a_word(value, WORDS))
            }
        }

        #[automatically_derived]
        impl $crate::json::ToJson for $name {
            fn write_json(&self, w: &mut $crate::json::Writer) {
                w.string(self.as_str());
            }
        }
    };
    ($(#[$($attribute:tt)*])* $vis:vis enum $name:ident {$($inside:tt)*}) => {
        ::core::compile_error!(
            "the variants of a choice are words, `Low` or `Low = \"low\"`; an enum with data is defined with `record!`: \
             `enum Name tagged \"kind\" {…}`"
        );
    };
}
